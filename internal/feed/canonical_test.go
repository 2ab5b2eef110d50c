package feed

import (
	"net/url"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// canonicalRows is the rule, line by line. A changed answer needs a new CanonicalRule. A want that begins with
// an exclamation mark is a refusal.
var canonicalRows = []struct{ raw, want string }{
	// As people and OPML files write them.
	{"https://example.org/feed.xml", "https://example.org/feed.xml"},
	{"http://example.org/feed.xml", "http://example.org/feed.xml"},
	{"https://example.org", "https://example.org/"},
	{"  https://example.org/a \n", "https://example.org/a"},
	{"https://exa\nmple.org/\ta", "https://example.org/a"},
	{"HTTPS://Example.ORG/Feed.XML", "https://example.org/Feed.XML"},
	{"https:/example.org/a", "https://example.org/a"},
	{"https:example.org/a", "https://example.org/a"},
	{"https:////example.org/a", "https://example.org/a"},
	{`https:\\example.org\a`, "https://example.org/a"},
	{"https://example.org/a#top", "https://example.org/a"},
	{"https://example.org/a#", "https://example.org/a"},

	// The scheme of feed readers.
	{"feed:https://example.org/a", "https://example.org/a"},
	{"feed:http://example.org/a", "http://example.org/a"},
	{"feed://example.org/a", "http://example.org/a"},
	{"FEED://Example.org/a", "http://example.org/a"},
	{" fe\ned:https:/example.org/a", "https://example.org/a"},
	{"feed://example.org:80/a", "http://example.org/a"},
	{"feed:example.org/a", "!http"},
	{"feed:feed://example.org/a", "!http"},
	{"feed:", "!http"},
	{"feed://", "!host"},
	{"feed:ftp://example.org/a", "!http"},

	// Pages.
	{"page+https://example.org/", "page+https://example.org/"},
	{" PAGE+HTTPS://Example.org:443#top", "page+https://example.org/"},
	{"page+https:/example.org/a", "page+https://example.org/a"},
	{"page+https://example.org/a?b#select= .x > .y &omit=%23ad", "page+https://example.org/a?b#omit=%23ad&select=.x%20%3E%20.y"},
	{"Page+https://example.org#only=added", "page+https://example.org/#only=added"},
	{"page+https://example.org/#number=.price<50,0", "page+https://example.org/#number=.price%3C50"},
	{"page+https://example.org/#/route?select=x", "page+https://example.org/"},
	{"page+https://example.org/#select=.x..y", "!select=.x..y"},
	{"page+https://example.org/#select=.x&slect=.y", "!slect"},
	{"https://example.org/#select=.x", "https://example.org/"},
	{"page+feed://example.org/a", "!http"},
	{"page+page+https://example.org/a", "!http"},
	{"page+ftp://example.org/a", "!http"},
	{"page+", "!http"},
	{"https://example.org/page+", "https://example.org/page+"},

	// Ports.
	{"http://example.org:80/", "http://example.org/"},
	{"https://example.org:443/", "https://example.org/"},
	{"http://example.org:443/", "http://example.org:443/"},
	{"https://example.org:80/", "https://example.org:80/"},
	{"https://example.org:/", "https://example.org/"},
	{"https://example.org:0443/", "https://example.org/"},
	{"https://example.org:8443/", "https://example.org:8443/"},
	{"https://example.org:65536/", "!port"},
	{"https://example.org:0/", "!port"},
	{"https://example.org:-1/", "!port"},
	{"https://example.org:99999999999999999999/", "!port"},
	{"https://example.org:http/", "!port"},

	// Hosts.
	{"https://www.example.org/", "https://www.example.org/"},
	{"https://example.org./", "https://example.org./"},
	{"https://ex%61mple.org/", "https://example.org/"},
	{"https://my_host.example.org/", "https://my_host.example.org/"},
	{"https://bücher.example/", "https://xn--bcher-kva.example/"},
	{"https://BÜCHER.example/", "https://xn--bcher-kva.example/"},
	{"https://bu\u0308cher.example/", "https://xn--bcher-kva.example/"},
	{"https://xn--bcher-kva.example/", "https://xn--bcher-kva.example/"},
	{"https://straße.example/", "https://xn--strae-oqa.example/"},
	{"https://strasse.example/", "https://strasse.example/"},
	{"https://例え.テスト/フィード", "https://xn--r8jz45g.xn--zckzah/%E3%83%95%E3%82%A3%E3%83%BC%E3%83%89"},
	{"https://ｅｘａｍｐｌｅ.org/", "https://example.org/"},
	{"https://example。org/", "https://example.org/"},
	{"https://ex\u00adample.org/", "https://example.org/"},
	{"http://127.0.0.1/", "http://127.0.0.1/"},
	{"http://2130706433/", "http://127.0.0.1/"},
	{"http://0x7f.1/", "http://127.0.0.1/"},
	{"http://0177.0.0.01/", "http://127.0.0.1/"},
	{"http://127.0.0.1./", "http://127.0.0.1/"},
	{"http://①②⑦.0.0.1/", "http://127.0.0.1/"},
	{"http://256.0.0.1/", "!host"},
	{"http://1.2.3.4.5/", "!host"},
	{"http://[::1]/", "http://[::1]/"},
	{"http://[0:0::0:1]/", "http://[::1]/"},
	{"http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/"},
	{"http://[2001:DB8:0:0::1]:8080/", "http://[2001:db8::1]:8080/"},
	{"http://[fe80::1%25eth0]/", "!host"},
	{"http://[::1/", "!host"},
	{"http://[::1]a/", "!host"},
	{"https://", "!host"},
	{"https:///", "!host"},
	{"https://?a", "!host"},
	{"https://:80/", "!host"},
	{"https://./", "!host"},
	{"https://a..b/", "!host"},
	{"https://.example.org/", "!host"},
	{"https://%00/", "!host"},
	{"https://exa mple.org/", "!host"},
	{"https://exa<mple.org/", "!host"},
	{"https://exa`mple.org/", "!host"},
	{"https://exa$mple.org/", "!host"},
	{"https://exa,mple.org/", "!host"},
	{"https://*.example.org/", "!host"},
	{"https://example.org%2Fa/", "!host"},
	{"https://" + strings.Repeat("a", 64) + ".org/", "!host"},
	{"https://" + strings.Repeat("a.", 127) + "org/", "!host"},

	// Credentials, also where a careless parser sees another host.
	{"https://user@example.org/", "!password"},
	{"https://user:geheim@example.org/", "!password"},
	{"https://:geheim@example.org/", "!password"},
	{"https://us%65r:gehe%69m@example.org/", "!password"},
	{"https://example.org@evil.example/", "!password"},
	{"https://example.org:443@evil.example/", "!password"},
	{`https://evil.example\@example.org/`, "https://evil.example/@example.org/"},
	{"https://a@b@c/", "!password"},
	{"https://user:geheim@/", "!URL"},
	{"https://user:geheim@example.org:x/", "!port"},
	{"feed:https://user:geheim@example.org/", "!password"},
	{"user:geheim@example.org/", "!http"},
	{"https://@example.org/", "https://example.org/"},
	{"https://example.org/@user", "https://example.org/@user"},

	// Path and query stay, except for dots and characters that must be encoded.
	{"https://example.org/a/../b/./c", "https://example.org/b/c"},
	{"https://example.org/../../a", "https://example.org/a"},
	{"https://example.org/a/%2e%2E/b", "https://example.org/b"},
	{"https://example.org//a//b/", "https://example.org//a//b/"},
	{`https://example.org/a\b`, "https://example.org/a/b"},
	{"https://example.org/%7euser", "https://example.org/%7euser"},
	{"https://example.org/~user", "https://example.org/~user"},
	{"https://example.org/a%2fb", "https://example.org/a%2fb"},
	{"https://example.org/a%2Fb", "https://example.org/a%2Fb"},
	{"https://example.org/100%", "https://example.org/100%"},
	{"https://example.org/%zz", "https://example.org/%zz"},
	{"https://example.org/a b", "https://example.org/a%20b"},
	{"https://example.org/ä", "https://example.org/%C3%A4"},
	{"https://example.org/a|b", "https://example.org/a|b"},
	{"https://example.org/a;b", "https://example.org/a;b"},
	{"https://example.org/\x00a", "https://example.org/%00a"},
	{"https://example.org/?", "https://example.org/?"},
	{"https://example.org?q", "https://example.org/?q"},
	{"https://example.org/?b=2&a=1&a=0", "https://example.org/?b=2&a=1&a=0"},
	{"https://example.org/?utm_source=x", "https://example.org/?utm_source=x"},
	{"https://example.org/?q=a+b%20c d", "https://example.org/?q=a+b%20c%20d"},
	{"https://example.org/?q='\"<>", "https://example.org/?q=%27%22%3C%3E"},
	{"https://example.org/?u=https://other.example/../a", "https://example.org/?u=https://other.example/../a"},
	{"https://example.org/?q=ü#ü", "https://example.org/?q=%C3%BC"},

	// These are not addresses of feeds.
	{"", "!http"},
	{"example.org/feed.xml", "!http"},
	{"//example.org/feed.xml", "!http"},
	{"/feed.xml", "!http"},
	{"localhost:8080/feed", "!http"},
	{"ftp://example.org/", "!http"},
	{"file:///etc/passwd", "!http"},
	{"gopher://example.org/", "!http"},
	{"javascript:alert(1)", "!http"},
	{"data:text/xml,<rss/>", "!http"},
	{"view-source:https://example.org/", "!http"},
	{"ws://example.org/", "!http"},
	{"mailto:a@example.org", "!http"},
	{"https", "!http"},
	{"https://example.org/\xff", "!UTF-8"},
	{"https://example.org/" + strings.Repeat("a", maxURL), "!2 KiB"},
	{"https://example.org/" + strings.Repeat("ä", maxURL/3), "!2 KiB"},
}

func TestCanonicalFollowsTheTable(t *testing.T) {
	for _, c := range canonicalRows {
		got, err := Canonical(c.raw)
		if word, refused := strings.CutPrefix(c.want, "!"); refused {
			if err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("%.80q: %q, %v; want a refusal that says %q", c.raw, got, err, word)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("%.80q: %q, %v; want %q", c.raw, got, err, c.want)
		}
	}
}

func TestRefusalsDoNotRepeatPasswords(t *testing.T) {
	for _, c := range canonicalRows {
		if _, err := Canonical(c.raw); err != nil && strings.Contains(err.Error(), "geheim") {
			t.Errorf("%q: %v", c.raw, err)
		}
	}
}

func TestResolveFollowsReferences(t *testing.T) {
	const base = "https://example.org/a/b?q"
	for _, c := range []struct{ ref, want string }{
		{"c", "https://example.org/a/c"},
		{"/c", "https://example.org/c"},
		{"../c", "https://example.org/c"},
		{"?r", "https://example.org/a/b?r"},
		{"#f", "https://example.org/a/b?q"},
		{"", "https://example.org/a/b?q"},
		{"//other.example/c", "https://other.example/c"},
		{"http://other.example/c", "http://other.example/c"},
		{"https:c", "https://example.org/a/c"},
		{`\\other.example\c`, "https://other.example/c"},
		{"/ü b", "https://example.org/%C3%BC%20b"},
		{"//user:geheim@other.example/", "!password"},
		{"file:///etc/passwd", "!http"},
		{"javascript:alert(1)", "!http"},
		{"feed://other.example/", "!http"},
		{"//", "!host"},
	} {
		got, err := Resolve(base, c.ref)
		if word, refused := strings.CutPrefix(c.want, "!"); refused {
			if err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("%q: %q, %v; want a refusal that says %q", c.ref, got, err, word)
			}
		} else if err != nil || got != c.want {
			t.Errorf("%q: %q, %v; want %q", c.ref, got, err, c.want)
		}
	}
	if _, err := Resolve("feed.xml", "c"); err == nil {
		t.Error("a reference to a base that is no address was resolved")
	}
}

// checkCanonical checks that Canonical keeps an address that it returned, and that net/url reads the same host
// in it.
func checkCanonical(t interface{ Fatalf(string, ...any) }, raw string) {
	s, err := Canonical(raw)
	if len(raw) <= maxURL && isPlain(raw) {
		if parsed, failed := canonical(raw); failed != nil || parsed != raw || s != raw {
			t.Fatalf("%q is plain, but parsed as %q, %v", raw, parsed, failed)
		}
	}
	if err != nil {
		if s != "" {
			t.Fatalf("%q: %q beside %v", raw, s, err)
		}
		return
	}
	if again, err := Canonical(s); again != s {
		t.Fatalf("%q becomes %q becomes %q, %v", raw, s, again, err)
	}
	document, isPage := DocumentURL(s)
	if rule, err := WhatCounts(s); err != nil || !rule.IsZero() && WithWhatCounts(document, s) != s {
		t.Fatalf("%q becomes %q, whose rule is %q, %v", raw, s, rule.String(), err)
	}
	if len(s) > maxURL || strings.ContainsAny(s, " \t\n\x00") || strings.Contains(document, "#") {
		t.Fatalf("%q becomes %q", raw, s)
	}
	s = document // the rest applies to it as well
	if again, err := Canonical(s); isPage && again != s {
		t.Fatalf("a page at %q, which becomes %q, %v", s, again, err)
	}
	if again, err := Resolve("https://base.example/", s); again != s {
		t.Fatalf("%q resolves to %q, %v", s, again, err)
	}
	scheme, rest, _ := strings.Cut(s, "://")
	host, _, _ := strings.Cut(rest, "/")
	if u, err := url.Parse(scheme + "://" + host + "/"); err != nil || u.Host != host || u.User != nil {
		t.Fatalf("%q has the host %q, but net/url reads %v, %v", s, host, u, err)
	}
}

func TestCanonicalIsIdempotent(t *testing.T) {
	word := rapid.SampledFrom([]string{
		"http", "https", "feed", "FEED", ":", ":", "/", "//", "/", `\`, "@", "?", "#", "%", "%2e", "%2E%2e", "..", ".",
		"example", "org", "xn--", "xn--bcher-kva", "ü", "ß", "İ", "ａ", "。", "\u00ad", "\u200d", "[", "]", "::1", "0x7f", "127",
		"1", "80", "443", " ", "\t", "\n", "\x00", "|", "'", "\"", "<", "&", "=", "a", "B",
	})
	rapid.Check(t, func(t *rapid.T) {
		raw := strings.Join(rapid.SliceOfN(word, 0, 20).Draw(t, "words"), "")
		checkCanonical(t, raw)
		checkCanonical(t, "https://"+raw)
	})
}

// The parser returns every plain address unchanged.
func TestPlainAddressesAreCanonical(t *testing.T) {
	word := rapid.SampledFrom([]string{
		"a", "B", "7", "0", "01", "255", "0x7f", "xn", "org", "example", "feed.xml", "-", "--", "_", "~", "+", ",", "=", "&", ".", "..", ":", "/", "//", "?", "80", "443", "4801", "65535", "65536", "%",
	})
	words := rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(word, 0, 5).Draw(t, "words"), "") })
	plain := 0
	rapid.Check(t, func(t *rapid.T) {
		host := rapid.SampledFrom([]string{"example.org", "127.0.0.1", "a-b.example", words.Draw(t, "host")}).Draw(t, "host or words")
		raw := rapid.SampledFrom([]string{"http://", "https://"}).Draw(t, "scheme") + host + "/" + words.Draw(t, "path") + rapid.SampledFrom([]string{"", "?"}).Draw(t, "mark") + words.Draw(t, "query")
		checkCanonical(t, raw)
		if isPlain(raw) {
			plain++
		}
	})
	if plain == 0 {
		t.Error("no address was plain")
	}
	for _, raw := range []string{
		"", "http://", "http:///", "http://h", "ftp://h/", "http://http://h/", "http://H/", "http://h./", "http://h..x/", "http://ü/", "http://xn--bcher-kva.example/",
		"http://1/", "http://127.1/", "http://127.0.0.01/", "http://h.0x7f/", "http://[::1]/", "http://[0/", "http://u@h/", "http://h:/", "http://h:80/", "https://h:443/", "http://h:99999/", "http://h:+8080/", "http://h:08080/",
		"http://h/.", "http://h/a/../b", "http://h/a#b", "http://h/?", "http://h/a?b#c", "http://h/%7e", "http://h/a b", `http://h/a\b`, "page+http://h/", "feed://h/", "http://h/ü",
	} {
		if isPlain(raw) {
			t.Errorf("%s is plain", raw)
		}
	}
	for _, raw := range []string{"http://h/", "https://www.example.org/blog/feed.xml?format=rss&n=10", "http://127.0.0.1:4801/a//b", "https://a-b.example:65535/~user/x_y+z,1"} {
		if !isPlain(raw) {
			t.Errorf("%s is not plain", raw)
		}
	}
}

func BenchmarkCanonical(b *testing.B) {
	for name, raw := range map[string]string{"plain": "https://www.example.org/blog/feed.xml?format=rss", "parsed": "https://www.example.org/blog/feed.xml?format=rss|atom"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Canonical(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func FuzzCanonical(f *testing.F) {
	for _, c := range canonicalRows {
		f.Add(c.raw)
	}
	f.Fuzz(func(t *testing.T, raw string) { checkCanonical(t, raw) })
}

// Of the 26,000 addresses that people gave for feeds, the rule keeps all apart that differ in more than
// spelling.
func TestCanonicalReadsRealAddresses(t *testing.T) {
	list, err := os.ReadFile("../../../shared/data/lists/feeds.txt")
	if err != nil {
		t.Skipf("no list of real addresses: %v", err)
	}
	refused, merged, total := 0, 0, 0
	seen := map[string]bool{}
	for raw := range strings.Lines(string(list)) {
		total++
		checkCanonical(t, raw)
		s, err := Canonical(raw)
		switch {
		case err != nil:
			refused++
			t.Logf("%.100q: %v", raw, err)
		case seen[s]:
			merged++
		}
		seen[s] = true
	}
	t.Logf("%d addresses, %d refused, %d spelled twice", total, refused, merged)
	if refused > total/1000 {
		t.Errorf("%d of %d refused", refused, total)
	}
}

func FuzzResolve(f *testing.F) {
	f.Add("https://example.org/a", "../b")
	f.Fuzz(func(t *testing.T, base, ref string) {
		if s, err := Resolve(base, ref); err == nil {
			checkCanonical(t, s)
		}
	})
}
