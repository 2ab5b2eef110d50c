package feed

import (
	"net/url"
	"strings"

	"golang.org/x/net/html"
)

// absolute returns the address that ref stands for in a document at base. An absolute address stays as it is
// written.
func absolute(base, ref string) string {
	if ref == "" || base == "" {
		return ref
	}
	if u, err := url.Parse(ref); err == nil && u.Scheme != "" {
		return ref
	}
	return resolve(base, ref)
}

// absoluteAttribute returns an attribute of HTML with absolute addresses. An address within the content itself,
// such as that of a footnote, stays.
func absoluteAttribute(base, name, value string) string {
	switch name {
	case "href", "src", "poster", "cite", "longdesc", "data":
		if strings.HasPrefix(strings.TrimSpace(value), "#") {
			return value
		}
		return absolute(base, strings.TrimSpace(value))
	case "srcset":
		list := strings.Split(value, ", ")
		for i, candidate := range list {
			address, size, _ := strings.Cut(strings.TrimSpace(candidate), " ")
			list[i] = strings.TrimSpace(absolute(base, address) + " " + size)
		}
		return strings.Join(list, ", ")
	}
	return value
}

// maxGrowth bounds the growth of a text by absolute addresses, in bytes beyond twice its size. Otherwise an item full
// of short addresses below a base of 4 KiB would become several hundred times as large. Text beyond it keeps its
// addresses as they are written.
const maxGrowth = 16 << 10

// absoluteHTML returns HTML with absolute addresses. Tags without relative addresses keep their bytes.
func absoluteHTML(base, s string) string {
	if base == "" || strings.IndexByte(s, '<') < 0 {
		return s
	}
	var b strings.Builder
	z := html.NewTokenizer(strings.NewReader(s))
	for {
		switch kind := z.Next(); kind {
		case html.ErrorToken:
			b.Write(z.Raw()) // an incomplete tag
			return b.String()
		case html.StartTagToken, html.SelfClosingTagToken:
			raw, changed := string(z.Raw()), false
			if b.Len() > 2*len(s)+maxGrowth {
				b.WriteString(raw)
				continue
			}
			t := z.Token()
			for i, a := range t.Attr {
				t.Attr[i].Val = absoluteAttribute(base, a.Key, a.Val)
				changed = changed || t.Attr[i].Val != a.Val
			}
			if changed {
				raw = t.String()
			}
			b.WriteString(raw)
		default:
			b.Write(z.Raw())
		}
	}
}
