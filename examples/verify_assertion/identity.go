// Package identity verifies X-Gate-Jwt-Assertion: docs/guides/verify-assertion.md
package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	issuer   = "authenticate.example.com"
	audience = "app.example.com"
)

type Claims struct {
	Issuer   string   `json:"iss"`
	Audience string   `json:"aud"`
	Expires  int64    `json:"exp"`
	Subject  string   `json:"sub"`
	Email    string   `json:"email"`
	Groups   []string `json:"groups"`
}

type jwk struct{ Kid, Alg, X, Y string }

var (
	mutex     sync.Mutex
	keys      map[string]*ecdsa.PublicKey
	fetchedAt time.Time
	client    = http.Client{Timeout: 10 * time.Second}
)

// VerifyAssertion returns the claims, or an error if the assertion is not valid.
func VerifyAssertion(assertion string) (*Claims, error) {
	parts := strings.Split(assertion, ".")
	if len(parts) != 3 {
		return nil, errors.New("not a JWT")
	}
	var header struct{ Alg, Kid string }
	claims := &Claims{}
	for i, into := range []any{&header, claims} {
		text, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, into); err != nil {
			return nil, err
		}
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || header.Alg != "ES256" || len(signature) != 64 {
		return nil, errors.New("not an ES256 signature")
	}
	key, err := getKey(header.Kid)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if !ecdsa.Verify(key, digest[:], toInt(signature[:32]), toInt(signature[32:])) {
		return nil, errors.New("invalid signature")
	}
	if claims.Issuer != issuer || claims.Audience != audience {
		return nil, errors.New("wrong issuer or audience")
	}
	if claims.Expires <= time.Now().Unix() || claims.Subject == "" {
		return nil, errors.New("expired assertion")
	}
	return claims, nil
}

func getKey(kid string) (*ecdsa.PublicKey, error) {
	mutex.Lock()
	defer mutex.Unlock()
	if keys[kid] == nil && time.Since(fetchedAt) > 10*time.Second {
		fetchedAt = time.Now()
		if err := fetchKeys(); err != nil {
			return nil, fmt.Errorf("the key set cannot be fetched: %w", err)
		}
	}
	if keys[kid] == nil {
		return nil, errors.New("unknown key")
	}
	return keys[kid], nil
}

func fetchKeys() error {
	response, err := client.Get("https://" + issuer + "/.well-known/gate/jwks.json")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var found struct{ Keys []jwk }
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(&found); err != nil {
		return err
	}
	keys = map[string]*ecdsa.PublicKey{}
	for _, key := range found.Keys {
		x, errX := base64.RawURLEncoding.DecodeString(key.X)
		y, errY := base64.RawURLEncoding.DecodeString(key.Y)
		if key.Alg == "ES256" && errX == nil && errY == nil {
			keys[key.Kid] = &ecdsa.PublicKey{Curve: elliptic.P256(), X: toInt(x), Y: toInt(y)}
		}
	}
	return nil
}

func toInt(bytes []byte) *big.Int { return new(big.Int).SetBytes(bytes) }
