// Verify X-Gate-Jwt-Assertion: docs/guides/verify-assertion.md
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.math.BigInteger;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.security.AlgorithmParameters;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.PublicKey;
import java.security.Signature;
import java.security.spec.ECGenParameterSpec;
import java.security.spec.ECParameterSpec;
import java.security.spec.ECPoint;
import java.security.spec.ECPublicKeySpec;
import java.time.Duration;
import java.time.Instant;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;

public final class Identity {
    private static final String ISSUER = "authenticate.example.com";
    private static final String AUDIENCE = "app.example.com";
    private static final ObjectMapper JSON = new ObjectMapper();
    private final HttpClient client = HttpClient.newHttpClient();
    private Map<String, PublicKey> keys = Map.of();
    private Instant fetchedAt = Instant.EPOCH;

    /** Return the claims. Throws if the assertion is not valid. */
    public JsonNode verifyAssertion(String assertion) throws Exception {
        String[] parts = assertion.split("\\.", -1);
        if (parts.length != 3) throw new SecurityException("not a JWT");
        JsonNode header = JSON.readTree(decode(parts[0]));
        JsonNode claims = JSON.readTree(decode(parts[1]));
        if (!header.path("alg").asText().equals("ES256")) throw new SecurityException("unexpected algorithm");
        Signature signature = Signature.getInstance("SHA256withECDSAinP1363Format");
        signature.initVerify(getKey(header.path("kid").asText()));
        signature.update((parts[0] + "." + parts[1]).getBytes(StandardCharsets.US_ASCII));
        if (!signature.verify(decode(parts[2]))) throw new SecurityException("invalid signature");
        if (!claims.path("iss").asText().equals(ISSUER) || !claims.path("aud").asText().equals(AUDIENCE)) {
            throw new SecurityException("wrong issuer or audience");
        }
        if (claims.path("exp").asLong() <= Instant.now().getEpochSecond() || claims.path("sub").asText().isEmpty()) {
            throw new SecurityException("expired assertion");
        }
        return claims;
    }

    private synchronized PublicKey getKey(String kid) throws Exception {
        if (!keys.containsKey(kid) && Instant.now().isAfter(fetchedAt.plusSeconds(10))) {
            fetchedAt = Instant.now();
            var url = URI.create("https://" + ISSUER + "/.well-known/gate/jwks.json");
            var request = HttpRequest.newBuilder(url).timeout(Duration.ofSeconds(10)).build();
            var response = client.send(request, HttpResponse.BodyHandlers.ofByteArray());
            if (response.statusCode() != 200) throw new IOException("the key set cannot be fetched: " + response.statusCode());
            var found = new HashMap<String, PublicKey>();
            for (JsonNode jwk : JSON.readTree(response.body()).path("keys")) {
                if (jwk.path("alg").asText().equals("ES256")) found.put(jwk.path("kid").asText(), publicKey(jwk));
            }
            keys = found;
        }
        if (!keys.containsKey(kid)) throw new SecurityException("unknown key");
        return keys.get(kid);
    }

    private static PublicKey publicKey(JsonNode jwk) throws GeneralSecurityException {
        var curve = AlgorithmParameters.getInstance("EC");
        curve.init(new ECGenParameterSpec("secp256r1"));
        var point = new ECPoint(new BigInteger(1, decode(jwk.path("x").asText())), new BigInteger(1, decode(jwk.path("y").asText())));
        return KeyFactory.getInstance("EC").generatePublic(new ECPublicKeySpec(point, curve.getParameterSpec(ECParameterSpec.class)));
    }

    private static byte[] decode(String text) {
        return Base64.getUrlDecoder().decode(text);
    }
}
