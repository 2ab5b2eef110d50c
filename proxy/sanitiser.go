package proxy

import (
	"bytes"
	"html/template"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"code.dny.dev/ssrf"
	"github.com/microcosm-cc/bluemonday"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"tidings/internal/feed"
	"tidings/internal/locale"
)

// A sanitiser makes HTML of strangers safe for the pages. Text markup stays. Scripts, embedded content and styles
// are removed, and so are links to this machine and its local network.
type sanitiser struct {
	policy *bluemonday.Policy
	strict *bluemonday.Policy // removes all markup
	// feeds is the policy for output to feed readers. They may load from their own network, and can resolve
	// relative addresses.
	feeds *bluemonday.Policy
}

// maxContent bounds the content of an item that a page shows, in bytes.
const maxContent = 64 << 10

func newSanitiser() sanitiser {
	p := bluemonday.UGCPolicy()
	// A relative address would lead to this server.
	p.AllowRelativeURLs(false)
	for _, scheme := range []string{"http", "https"} {
		p.AllowURLSchemeWithCustomPolicy(scheme, isPublic)
	}
	p.RequireNoFollowOnLinks(true)
	p.RequireNoReferrerOnLinks(true)
	p.AddTargetBlankToFullyQualifiedLinks(true)
	return sanitiser{p, bluemonday.StrictPolicy(), bluemonday.UGCPolicy()}
}

// html sanitises content for a page in a language. The content is first parsed and rendered as browsers do it. The policy works tag by tag,
// so a stray closing tag would otherwise close a part of the page.
func (c sanitiser) html(l *locale.Language, content string) template.HTML {
	if len(content) > maxContent {
		content = strings.ToValidUTF8(content[:maxContent], "")
	}
	return template.HTML(c.apply(c.policy, content, func(root *html.Node) { replaceImages(l, root) }))
}

// apply applies a policy to content, after a change of what is parsed.
func (c sanitiser) apply(policy *bluemonday.Policy, content string, change func(root *html.Node)) string {
	nodes, err := html.ParseFragment(strings.NewReader(content), &html.Node{Type: html.ElementNode, Data: "div", DataAtom: atom.Div})
	if err != nil { // nested too deeply for normal text
		return string(c.strict.SanitizeBytes([]byte(content)))
	}
	root := &html.Node{Type: html.DocumentNode}
	for _, n := range nodes {
		root.AppendChild(n)
	}
	if change != nil {
		change(root)
	}
	var b bytes.Buffer
	if err := html.Render(&b, root); err != nil {
		return ""
	}
	return string(policy.SanitizeBytes(b.Bytes()))
}

// cleanMeaning sanitises an item for feeds in another format than its source's.
func (c sanitiser) cleanMeaning(m *feed.Meaning) {
	m.Title = c.title(m.Title)
	m.Summary, m.Content = c.apply(c.feeds, m.Summary, nil), c.apply(c.feeds, m.Content, nil)
	if !isWeb(m.Link) {
		m.Link = ""
	}
	m.Enclosures = slices.DeleteFunc(m.Enclosures, func(e feed.Enclosure) bool { return !isWeb(e.URL) })
}

// title returns a title as text. A tag that is left stays if it is nothing but a name, as in "The <title> element".
// A reader that takes titles for HTML would do something with other tags.
func (c sanitiser) title(s string) string {
	s = feed.PlainTitle(s)
	for z := html.NewTokenizer(strings.NewReader(s)); z.Next() != html.ErrorToken; {
		if t := z.Token(); t.Type == html.EndTagToken || len(t.Attr) > 0 || t.DataAtom == atom.Script {
			return html.UnescapeString(string(c.strict.SanitizeBytes([]byte(s))))
		}
	}
	return s
}

// isWeb reports whether an address has the scheme http or https, and not javascript, for example.
func isWeb(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https")
}

// link returns an address if a page may link to it, and "" otherwise.
func (c sanitiser) link(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || !isPublic(u) {
		return ""
	}
	return address
}

// isPublic reports whether an address seems to lead to the public Web. A browser that follows other addresses would
// reach servers that only this machine or its local network can reach.
func isPublic(u *url.URL) bool {
	// Browsers accept spellings such as 2130706433 and 0x7f.1. Canonical converts them to dotted quads.
	plain, err := feed.Canonical(u.String())
	if err != nil {
		return false
	}
	if u, err = url.Parse(plain); err != nil {
		return false
	}
	host := strings.TrimSuffix(u.Hostname(), ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		return special.SafeAddr(ip.Unmap()) == nil
	}
	if !strings.Contains(host, ".") {
		return false
	}
	return !slices.ContainsFunc([]string{".localhost", ".local", ".internal", ".lan", ".home.arpa"}, func(suffix string) bool {
		return strings.HasSuffix(host, suffix)
	})
}

// special knows IANA's registries of special-purpose addresses.
var special = ssrf.New()
