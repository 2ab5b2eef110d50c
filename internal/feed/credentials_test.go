package feed

import "testing"

func TestCredentialsAreSplitOff(t *testing.T) {
	for _, c := range []struct{ raw, address, user, password string }{
		{"https://example.org/a?b=c", "https://example.org/a?b=c", "", ""},
		{"https://ann:geheim@Example.org:443/a#x", "https://example.org/a", "ann", "geheim"},
		{"https://ann@example.org/", "https://example.org/", "ann", ""},
		{"https://:geheim@example.org/", "https://example.org/", "", "geheim"},
		{"https://a%40b:p%3Aq%25@example.org/", "https://example.org/", "a@b", "p:q%"},
		{"https://a@b:c@example.org/", "https://example.org/", "a@b", "c"},
		{"https://ann:100%@example.org/", "https://example.org/", "ann", "100%"},
		{"feed:https://ann:geheim@example.org/", "https://example.org/", "ann", "geheim"},
		{"feed://ann:geheim@example.org/", "http://example.org/", "ann", "geheim"},
		{"http://ann:ü@127.0.0.1:8080/f", "http://127.0.0.1:8080/f", "ann", "ü"},
	} {
		address, user, password, err := SplitCredentials(c.raw)
		if err != nil || address != c.address || user != c.user || password != c.password {
			t.Errorf("%s: %q %q %q %v", c.raw, address, user, password, err)
		}
	}
	for _, raw := range []string{"", "ann:geheim@example.org/", "ftp://ann:geheim@example.org/", "https://ann:geheim@/", "page+https://ann:geheim@example.org/", "https://ann:geheim@example.org:0/"} {
		if address, _, _, err := SplitCredentials(raw); err == nil {
			t.Errorf("%q is read as %s", raw, address)
		}
	}
}

func FuzzSplitCredentials(f *testing.F) {
	f.Add("https://ann:geheim@example.org/a?b#c")
	f.Add("feed:https://a@b:c%zz@example.org/")
	f.Fuzz(func(t *testing.T, raw string) {
		address, _, _, err := SplitCredentials(raw)
		if err != nil {
			return
		}
		if again, err := Canonical(address); err != nil || again != address {
			t.Errorf("%q: %q is not canonical: %q %v", raw, address, again, err)
		}
	})
}
