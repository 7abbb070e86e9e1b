#!/bin/sh
# Makes what `docker compose up` reads beside compose.yaml: for each service a directory with its configuration, certificates and secrets,
# and with nobody else's. Run it once, as root: then each directory belongs to the user whom its container runs as.
#
#   ./prepare.sh [DIRECTORY]
set -eu
umask 077
compose=$(cd "$(dirname "$0")" && pwd)
cd "${1:-$compose}"
gate="databroker authorize authenticate proxy"

for name in $gate store db authority; do
    if [ -e "$name" ]; then
        echo "$PWD/$name already exists, and is left as it is" >&2
        exit 1
    fi
done
# shellcheck disable=SC2086 - each is a word
mkdir $gate store db authority

# Names in certificates: of compose and examples/split.
# What speaks only to gate has certificates of an authority of its own, whose key nobody needs but this script.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 -subj "/CN=gate, internal" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign \
    -keyout authority/internal-ca-key.pem -out authority/internal-ca.pem 2>/dev/null

certificate() { # CERTIFICATE KEY HOST...
    certificate=$1 key=$2
    shift 2
    names=$(printf ',DNS:%s' "$@")
    printf '%s\n' "subjectAltName=${names#,}" extendedKeyUsage=serverAuth basicConstraints=critical,CA:FALSE >authority/extensions
    openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$1" -keyout "$key" 2>/dev/null |
        openssl x509 -req -CA authority/internal-ca.pem -CAkey authority/internal-ca-key.pem -days 825 -sha256 \
            -extfile authority/extensions -out "$certificate" 2>/dev/null
}

certificate databroker/databroker.pem databroker/databroker-key.pem databroker.internal
certificate authorize/authorize.pem authorize/authorize-key.pem authorize.internal
certificate store/store.pem store/store-key.pem store.internal
certificate db/db.pem db/db-key.pem db.internal
# Only to try it: browsers know no such authority. Yours goes in their place.
certificate authenticate/fullchain.pem authenticate/privkey.pem authenticate.example.com
certificate proxy/fullchain.pem proxy/privkey.pem app.example.com

cp authority/internal-ca.pem databroker/store-ca.pem
cp authority/internal-ca.pem authorize/
cp authority/internal-ca.pem authenticate/
cp authority/internal-ca.pem proxy/
cp authority/internal-ca.pem store/

openssl ecparam -name prime256v1 -genkey -noout -out authenticate/signing-key.pem
cp authenticate/signing-key.pem authorize/

# One address has one port 443, and that is the proxy's: compose.yaml gives authenticate 8444.
shared_secret=$(openssl rand -base64 32)
cookie_secret=$(openssl rand -base64 32)
store_password=$(openssl rand -hex 32)
db_password=$(openssl rand -hex 32)
for name in $gate; do
    sed -e "s|PUT-A-SECRET-HERE|$cookie_secret|" -e "s|PUT-ANOTHER-SECRET-HERE|$shared_secret|" \
        -e "s|PUT-THE-STORE-PASSWORD-HERE|$store_password|" -e "s|PUT-THE-DATABASE-PASSWORD-HERE|$db_password|" \
        -e "s|https://authenticate.example.com$|&:8444|" "$compose/../../examples/split/$name.yaml" >"$name/$name.yaml"
done
echo "requirepass $store_password" >store/password.conf
echo "$db_password" >db/password
openssl rand -hex 32 >db/superuser-password

if [ "$(id -u)" = 0 ]; then
    # shellcheck disable=SC2086
    chown -R 8443:8443 $gate
    chown -R 999:999 store db
else
    echo "not root: give $gate to user 8443, store and db to user 999" >&2
fi
echo "Now say in authenticate/authenticate.yaml who the provider is, in all four files which hosts are yours, and bring their certificates."
