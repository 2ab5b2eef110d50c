package page

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

// encodeXOR encodes a text with a key.
func encodeXOR(text string, key byte) string {
	raw := append([]byte{key}, text...)
	for i := range raw[1:] {
		raw[i+1] ^= key
	}
	return hex.EncodeToString(raw)
}

// An encoded mail address is read as it is, whatever the key.
func TestEncodedAddresses(t *testing.T) {
	for key := range 256 {
		link, text := encodeXOR("guests@inn.example?subject=A room", byte(key)), encodeXOR("guests@inn.example", byte(255-key))
		for _, c := range []struct{ doc, want string }{
			{`Write to <a href="/cdn-cgi/l/email-protection#%s"><span class="__cf_email__" data-cfemail="%s">[email&#160;protected]</span></a>.`, "Write to [guests@inn.example](mailto:guests@inn.example?subject=A%20room)."},
			{`Write to <a href="https://inn.example/cdn-cgi/l/email-protection#%s">us <b data-cfemail="%s">x</b></a>.`, "Write to [us guests@inn.example](mailto:guests@inn.example?subject=A%20room)."},
		} {
			if got := HTML(fmt.Appendf(nil, c.doc, link, text)); len(got.Lines) != 1 || got.Lines[0] != c.want {
				t.Fatalf("key %d: %q, want %q", key, got.Lines, c.want)
			}
		}
	}
	for doc, want := range map[string]string{
		`<a href="/cdn-cgi/l/email-protection" class=x data-cfemail="` + encodeXOR("a@b.example", 7) + `">[email&nbsp;protected]</a> it`: "[a@b.example](mailto:a@b.example) it",
		`<a href="&#109;ailto:&#97;%40b.ex%61mple">us</a>`:                         "[us](mailto:a@b.example)",
		`<a href="MAILTO:a@b.example?subject=50%25">us</a>`:                        "[us](mailto:a@b.example?subject=50%25)",
		`<a href="mailto:a%2bc%3f@b.example">us</a>`:                               "[us](mailto:a%2Bc%3F@b.example)",
		`<a href="/cdn-cgi/l/email-protection#zz">us</a>`:                          "[us](/cdn-cgi/l/email-protection#zz)",
		`<b data-cfemail="00">as it is</b>`:                                        "as it is",
		`<b data-cfemail="` + encodeXOR("no address", 3) + `">x</b>`:               "x",
		`<b data-cfemail="` + encodeXOR("a@\x01", 3) + `">x</b>`:                   "x",
		`<b data-cfemail="` + strings.Repeat("0", maxEncodedAddress+2) + `">x</b>`: "x",
	} {
		if got := HTML([]byte("<p>" + doc)); len(got.Lines) != 1 || got.Lines[0] != want {
			t.Errorf("%s: %q, want %q", doc, got.Lines, want)
		}
	}
}

// Random identifiers do not hold words, and words beside short numbers stay words.
func TestWordsInIdentifiers(t *testing.T) {
	for value, want := range map[string]hint{
		"ad": intrusive, "ad1": intrusive, "ad-12": intrusive, "top-ad12": intrusive, "ads_2": intrusive, "sidebarAd": intrusive, "div-gpt-ad-1234567890123-0": intrusive, "banner ad": intrusive,
		"menu2": navigation, "h2menu": navigation, "col-3-toc": navigation,
		"box-48cc9de3-8b4f-436b-ad6a-7069b46b7622": plain, "x-99e0cc51-5ebe-4ad3-9066-95633a760111": plain, "s-8b4f12cd-ad12-4361-9066-7069b46b7622": plain,
		"c7ad9": plain, "3ad": plain, "ad1234567": plain, "b9-ad4": plain, "k3Ad": plain, "q0nav7x": plain,
	} {
		if got := hintOf([]byte(value)); got != want {
			t.Errorf("%s: %v, want %v", value, got, want)
		}
	}
}
