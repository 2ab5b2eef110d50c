package page

import (
	"slices"
	"strings"
	"testing"
)

func TestIcons(t *testing.T) {
	for _, c := range []struct {
		doc, base string
		want      []string
	}{
		{`<link rel="icon" href="/a.png">`, "", []string{"/a.png"}},
		{`<base href="http://cdn.example/"><link rel="apple-touch-icon" href="big.png"><link rel="Shortcut Icon" href=" a.ico ">`, "http://cdn.example/", []string{"a.ico", "big.png"}},
		{`<link rel="mask-icon" href="a.svg"><link rel="stylesheet" href="icon.css"><link rel="icon"><a rel="icon" href="b.png">`, "", nil},
		{`<body><link rel="icon" href="a.png">`, "", nil},
		{strings.Repeat(`<link rel="icon" href="a.png">`, 100), "", slices.Repeat([]string{"a.png"}, maxIcons)},
		{`<link rel="icon" href="` + strings.Repeat("a", maxTarget+1) + `">`, "", nil},
	} {
		base, got := Icons([]byte(c.doc))
		if base != c.base || !slices.Equal(got, c.want) {
			t.Errorf("%.100s: %q, %q", c.doc, base, got)
		}
	}
}
