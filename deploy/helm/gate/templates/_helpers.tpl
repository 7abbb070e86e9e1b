{{- define "gate.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else -}}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{/* Names of the services that run as Deployments, in the order in which they need each other; as JSON, {"names": [...]}. */}}
{{- define "gate.services" -}}
{{- $names := ternary (list "databroker" "authorize" "authenticate" "proxy") (list "single") (eq .Values.mode "split") -}}
{{- dict "names" $names | toJson -}}
{{- end -}}

{{/* Name of the objects of a service. */}}
{{- define "gate.name" -}}
{{- if eq .service "single" -}}{{ include "gate.fullname" .root }}{{- else -}}{{ include "gate.fullname" .root }}-{{ .service }}{{- end -}}
{{- end -}}

{{- define "gate.selector" -}}
app.kubernetes.io/name: gate
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- if .service }}
app.kubernetes.io/component: {{ .service }}
{{- end }}
{{- end -}}

{{- define "gate.labels" -}}
{{ include "gate.selector" . }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end -}}

{{/* What holds for the pods of a service, as JSON. */}}
{{- define "gate.pod" -}}
{{- mergeOverwrite (deepCopy .root.Values.pod) (deepCopy (index .root.Values .service)) | toJson -}}
{{- end -}}

{{- define "gate.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "gate.fullname" .) -}}
{{- end -}}

{{- define "gate.servesPeople" -}}
{{- if has .service (list "single" "authenticate" "proxy") -}}true{{- end -}}
{{- end -}}

{{- define "gate.servesGRPC" -}}
{{- if or (has .service (list "databroker" "authorize")) (and (eq .service "single") .root.Values.extAuthz.enabled) -}}true{{- end -}}
{{- end -}}

{{/* The store of `config`. */}}
{{- define "gate.store" -}}
{{- get .Values.config "databroker_storage_type" | default "memory" -}}
{{- end -}}

{{/* Settings of a service, as they stand in its file: what the chart decides wins over what was asked for. */}}
{{- define "gate.config" -}}
{{- $root := .root -}}
{{- $pod := include "gate.pod" . | fromJson -}}
{{- $split := eq $root.Values.mode "split" -}}
{{- $decided := dict "services" (ternary .service "all" $split) "data_dir" "/data" -}}
{{- if include "gate.servesPeople" . -}}
  {{- if eq $root.Values.tls.mode "ingress" -}}
    {{- $decided = merge $decided (dict "address" ":8080" "insecure_server" true) -}}
  {{- else -}}
    {{- $decided = merge $decided (dict "address" ":8443" "http_redirect_addr" ":8080") -}}
  {{- end -}}
  {{- if eq $root.Values.tls.mode "secret" -}}
    {{- $decided = merge $decided (dict "certificate_file" "/etc/gate-tls/tls.crt" "certificate_key_file" "/etc/gate-tls/tls.key") -}}
  {{- else if eq $root.Values.tls.mode "autocert" -}}
    {{- $decided = merge $decided (dict "autocert" true "autocert_dir" "/data/autocert") -}}
  {{- end -}}
{{- end -}}
{{- if include "gate.servesGRPC" . -}}
  {{- /* Others ask it over the network: in the clear only where all comes in the clear. */ -}}
  {{- $decided = merge $decided (dict "grpc_address" ":5443" "grpc_insecure" (and (eq .service "single") (eq $root.Values.tls.mode "ingress"))) -}}
{{- end -}}
{{- if has .service (list "databroker" "authorize") -}}
  {{- $decided = merge $decided (dict "certificate_file" "/etc/gate-internal/tls.crt" "certificate_key_file" "/etc/gate-internal/tls.key") -}}
{{- end -}}
{{- if and $split (ne .service "databroker") -}}
  {{- $broker := printf "https://%s.%s.svc:5443" (include "gate.name" (dict "root" $root "service" "databroker")) $root.Release.Namespace -}}
  {{- $decided = merge $decided (dict "databroker_service_url" $broker "certificate_authority_file" "/etc/gate-ca/ca.crt") -}}
{{- end -}}
{{- if eq .service "proxy" -}}
  {{- $authorize := printf "https://%s.%s.svc:5443" (include "gate.name" (dict "root" $root "service" "authorize")) $root.Release.Namespace -}}
  {{- $decided = merge $decided (dict "authorize_service_url" $authorize) -}}
{{- end -}}
{{- $asked := mergeOverwrite (dict "shutdown_delay" "5s") (deepCopy $root.Values.config) (deepCopy $pod.config) -}}
{{- /* Who judges needs no store, and who keeps no policy. */ -}}
{{- range $key := keys $asked -}}
  {{- if ternary (eq $key "policy") (and $split (hasPrefix "databroker_storage_" $key)) (eq $.service "databroker") -}}
    {{- $asked = omit $asked $key -}}
  {{- end -}}
{{- end -}}
{{- toYaml (mergeOverwrite $asked $decided) -}}
{{- end -}}

{{/* Services that need a secret, by its name in the environment: nobody gets one that is another's. As YAML. */}}
{{- define "gate.secrets" -}}
SHARED_SECRET: [single, databroker, authorize, authenticate, proxy]
COOKIE_SECRET: [single, authorize, authenticate, proxy]
SIGNING_KEY: [single, authorize, authenticate]
IDP_CLIENT_SECRET: [single, authenticate]
IDP_SERVICE_ACCOUNT: [single, authenticate]
SCIM_TOKEN: [single, authenticate]
ACCESS_WEBHOOK_URL: [single, authenticate]
ACCESS_WEBHOOK_SECRET: [single, authenticate]
DATABASE_URL: [single, authorize, authenticate{{ if eq (include "gate.store" .) "database" }}, databroker{{ end }}]
DATABROKER_STORAGE_CONNECTION_STRING: [single, databroker]
EXT_AUTHZ_TOKENS: [single, authorize]
CLOUD_SERVERLESS_AUTHENTICATION_SERVICE_ACCOUNT: [single, authorize]
AUTOCERT_EAB_MAC_KEY: [single]
CERTIFICATE_KEY: []
{{- end -}}

{{/* Secrets of a service, as JSON: name -> whether the Secret may lack it, for gate to say what it needs then. */}}
{{- define "gate.secretKeys" -}}
{{- $store := include "gate.store" .root -}}
{{- $pod := include "gate.pod" . | fromJson -}}
{{- $alone := and (eq .service "single") (not $pod.autoscaling.enabled) (le (int $pod.replicas) 1) -}}
{{- $needed := list "SHARED_SECRET" "COOKIE_SECRET" "IDP_CLIENT_SECRET" -}}
{{- if not $alone -}}{{- $needed = concat $needed (list "SIGNING_KEY" "DATABASE_URL") -}}{{- end -}}
{{- if has $store (list "kvstore" "redis") -}}{{- $needed = append $needed "DATABROKER_STORAGE_CONNECTION_STRING" -}}{{- end -}}
{{- if .root.Values.extAuthz.enabled -}}{{- $needed = append $needed "EXT_AUTHZ_TOKENS" -}}{{- end -}}
{{- $keys := dict -}}
{{- range $key, $services := include "gate.secrets" .root | fromYaml -}}
  {{- if has $.service $services -}}{{- $_ := set $keys $key (not (has $key $needed)) -}}{{- end -}}
{{- end -}}
{{- toJson $keys -}}
{{- end -}}

{{/* Hosts that people open: of the routes, and of gate's own pages; as JSON, {"names": [...]}. */}}
{{- define "gate.hosts" -}}
{{- $names := list -}}
{{- $urls := list (get .Values.config "authenticate_service_url") (get .Values.config "forward_auth_url") -}}
{{- range get .Values.config "policy" -}}{{- $urls = append $urls (get . "from") -}}{{- end -}}
{{- range compact $urls -}}
  {{- $url := urlParse . -}}
  {{- if ne $url.scheme "http" -}}{{- $names = append $names (splitList ":" $url.host | first) -}}{{- end -}}
{{- end -}}
{{- dict "names" (uniq $names) | toJson -}}
{{- end -}}

{{/* What can't work, said before anything is installed. */}}
{{- define "gate.check" -}}
{{- if not .Values.secrets.existingSecret -}}
  {{- fail "secrets.existingSecret: name the Secret that holds SHARED_SECRET, COOKIE_SECRET and IDP_CLIENT_SECRET (docs/operations/kubernetes.md)" -}}
{{- end -}}
{{- range $key, $_ := include "gate.secrets" . | fromYaml -}}
  {{- range $place := list $.Values $.Values.pod $.Values.single $.Values.databroker $.Values.authorize $.Values.authenticate $.Values.proxy -}}
    {{- if hasKey (get $place "config" | default dict) (lower $key) -}}
      {{- fail (printf "config.%s: a ConfigMap is no place for a secret: put %s into the Secret of secrets.existingSecret" (lower $key) $key) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- if and (eq .Values.tls.mode "secret") (not .Values.tls.secretName) -}}
  {{- fail "tls.secretName: name a Secret of type kubernetes.io/tls, or set tls.mode to autocert or ingress" -}}
{{- end -}}
{{- if and (eq .Values.tls.mode "autocert") (eq .Values.mode "single") (not .Values.persistence.enabled) -}}
  {{- fail "persistence.enabled: without it each new pod would request certificates again, and the authority would soon refuse" -}}
{{- end -}}
{{- if and .Values.persistence.enabled (eq .Values.mode "split") -}}
  {{- fail "persistence.enabled: with mode split records are in Redis or PostgreSQL, and nothing is kept in a pod" -}}
{{- end -}}
{{- if and (eq .Values.mode "split") (eq .Values.tls.mode "autocert") -}}
  {{- fail "tls.mode: with mode split several pods would each ask for certificates; use cert-manager (tls.issuerRef)" -}}
{{- end -}}
{{- if and (eq .Values.mode "split") (not .Values.internalTLS.certManager) -}}
  {{- if not (and .Values.internalTLS.databrokerSecret .Values.internalTLS.authorizeSecret .Values.internalTLS.caSecret) -}}
    {{- fail "internalTLS: name databrokerSecret, authorizeSecret and caSecret, or set certManager" -}}
  {{- end -}}
{{- end -}}
{{- $keeper := ternary "databroker" "single" (eq .Values.mode "split") -}}
{{- $pod := include "gate.pod" (dict "root" . "service" $keeper) | fromJson -}}
{{- if or (gt (int $pod.replicas) 1) $pod.autoscaling.enabled -}}
  {{- if eq (include "gate.store" .) "memory" -}}
    {{- fail (printf "%s.replicas: with databroker_storage_type memory each pod would have separate sessions: use kvstore or database (PostgreSQL)" $keeper) -}}
  {{- end -}}
  {{- if or .Values.persistence.enabled (eq .Values.tls.mode "autocert") -}}
    {{- fail (printf "%s.replicas: a volume, and certificates by autocert on it, are for one pod" $keeper) -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{/* Secret with the certificate by which a service is known to the others. */}}
{{- define "gate.internalSecret" -}}
{{- if .root.Values.internalTLS.certManager -}}{{ include "gate.name" . }}-internal
{{- else -}}{{ index .root.Values.internalTLS (printf "%sSecret" .service) }}
{{- end -}}
{{- end -}}

{{/* Secret with the authority of those certificates, of which only ca.crt is mounted. */}}
{{- define "gate.authoritySecret" -}}
{{- if .root.Values.internalTLS.certManager -}}{{ include "gate.fullname" .root }}-internal-ca
{{- else -}}{{ .root.Values.internalTLS.caSecret }}
{{- end -}}
{{- end -}}
