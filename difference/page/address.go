package page

import (
	"encoding/hex"
	"net/url"
	"strings"
	"unicode/utf8"
)

// Pages encode mail addresses against programs that collect them, often in another way at each fetch. Readers
// and the comparison get the address itself: mailto targets are percent-decoded, and addresses that are XORed
// with a random byte are decoded. Cloudflare encodes them in that way: the attribute data-cfemail, and the
// fragment of a link to the path in protectedPath, is the key and then each byte XORed with the key, in
// hexadecimal digits.

// protectedPath ends the path of a link with an encoded address.
const protectedPath = "/cdn-cgi/l/email-protection"

// maxEncodedAddress bounds an encoded address, in hexadecimal digits. An address has at most 254 bytes
// (RFC 5321, 4.5.3.1.3), and a link may add a subject.
const maxEncodedAddress = 2 << 10

// decodeXOR returns the text that is encoded by a key and its XOR with each byte. It is not ok if the result is
// not printable text with an @.
func decodeXOR(digits string) (text string, ok bool) {
	if len(digits) > maxEncodedAddress {
		return "", false
	}
	raw, err := hex.DecodeString(digits)
	if err != nil || len(raw) < 2 {
		return "", false
	}
	for i := range raw[1:] {
		raw[i+1] ^= raw[0]
	}
	text = string(raw[1:])
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f }) || !strings.Contains(text, "@") {
		return "", false
	}
	return text, true
}

// decodeAddress returns a target without the encoding of a mail address.
func decodeAddress(href string) string {
	if path, fragment, has := strings.Cut(href, "#"); has && strings.HasSuffix(path, protectedPath) {
		if address, ok := decodeXOR(fragment); ok {
			return "mailto:" + address
		}
	}
	scheme, rest, has := strings.Cut(href, ":")
	if !has || !strings.EqualFold(scheme, "mailto") {
		return href
	}
	address, query, asks := strings.Cut(rest, "?")
	if decoded, err := url.PathUnescape(address); err == nil && !strings.ContainsAny(decoded, "?#%") {
		address = decoded
	}
	if asks {
		address += "?" + query
	}
	return "mailto:" + address
}
