package fetch

import "testing"

func TestAddressIsAskedForByteForByte(t *testing.T) {
	for _, c := range []struct{ url, host, queue, asked string }{
		{"https://a.example/", "a.example", "a.example", "/"},
		{"http://a.example/?", "a.example", "a.example", "/?"},
		{"http://a.example/?a=%zz&b='", "a.example", "a.example", "/?a=%zz&b='"},
		{"http://a.example/100%", "a.example", "a.example", "/100%"},
		{"http://a.example/a|b%2f%2F", "a.example", "a.example", "/a|b%2f%2F"},
		{"http://a.example//b.example/", "a.example", "a.example", "//b.example/"},
		{"http://a.example//b%2f?q", "a.example", "a.example", "//b%2f?q"},
		{"http://a.example:443/", "a.example:443", "a.example", "/"},
		{"https://a.example:80/", "a.example:80", "a.example", "/"},
		{"https://a.example:8080/", "a.example:8080", "a.example:8080", "/"},
		{"http://[2001:db8::1]/", "[2001:db8::1]", "[2001:db8::1]", "/"},
		{"http://[::1]:8080/", "[::1]:8080", "[::1]:8080", "/"},
	} {
		to := newTarget(c.url)
		u := to.httpURL()
		if to.queue != c.queue || u.Host != c.host || u.RequestURI() != c.asked {
			t.Errorf("%s: queue %s, host %s, asked for %s", c.url, to.queue, u.Host, u.RequestURI())
		}
	}
}
