package page

import (
	"fmt"
	"testing"
)

func TestHubsOfPages(t *testing.T) {
	for doc, want := range map[string]string{
		`<head><link rel="hub" href="https://hub.example/"><link rel="self" href="/page">`:                          "self /page, hubs [https://hub.example/], base ",
		`<head><base href="https://b.example/"><link rel="self hub" href="x">`:                                      "self x, hubs [x], base https://b.example/",
		`<head><link REL=HUB href=a><link rel=hub href=b>`:                                                          "self , hubs [a b], base ",
		`<head><link rel="hub" href=""><link rel="hub"><a rel="hub" href="a">`:                                      "self , hubs [], base ",
		`<head></head><body><link rel="hub" href="https://evil.example/">`:                                          "self , hubs [], base ",
		`<link rel="self" href="a"><link rel="self" href="b">`:                                                      "self a, hubs [], base ",
		`<link rel=hub href=1><link rel=hub href=2><link rel=hub href=3><link rel=hub href=4><link rel=hub href=5>`: "self , hubs [1 2 3 4], base ",
		``: "self , hubs [], base ",
	} {
		base, h := HubsOf([]byte(doc))
		if got := fmt.Sprintf("self %s, hubs %v, base %s", h.Self, h.Hubs, base); got != want {
			t.Errorf("%s: %s, want %s", doc, got, want)
		}
	}
}

func TestHubsOfHeaders(t *testing.T) {
	for _, c := range []struct {
		fields []string
		want   string
	}{
		{[]string{`<https://hub.example/>; rel="hub", <https://a.example/feed>; rel="self"`}, "https://a.example/feed [https://hub.example/]"},
		{[]string{`<https://hub.example/>; rel=hub`, `<https://a.example/feed>; rel="self"`}, "https://a.example/feed [https://hub.example/]"},
		{[]string{`<h,1;2>; title="a, b"; rel="x hub"`}, " [h,1;2]"},
		{[]string{`<h>; rel=hub; anchor="/other"`}, " []"},
		{[]string{`<h; rel=hub`, `rel=hub`, `<>; rel=hub`}, " []"},
		{nil, " []"},
	} {
		h := HubsOfHeader(c.fields)
		if got := fmt.Sprint(h.Self, " ", h.Hubs); got != c.want {
			t.Errorf("%q: %s, want %s", c.fields, got, c.want)
		}
	}
}

func FuzzHubs(f *testing.F) {
	f.Add([]byte(`<link rel="hub" href="https://hub.example/"><base href=/x><body><link rel=self href=y>`), `<a>; rel="hub self"; anchor=x, <b>; rel=hub`)
	f.Fuzz(func(t *testing.T, doc []byte, field string) {
		base, h := HubsOf(doc)
		for _, h := range []Hubs{h, HubsOfHeader([]string{field})} {
			for _, target := range append(h.Hubs, h.Self, base) {
				if len(target) > maxTarget {
					t.Errorf("a target of %d bytes", len(target))
				}
			}
			if len(h.Hubs) > maxHubs {
				t.Errorf("%d hubs", len(h.Hubs))
			}
		}
	})
}
