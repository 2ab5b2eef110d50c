package proxy

import (
	"bytes"
	"html/template"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/microcosm-cc/bluemonday"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"tidings/internal/feed"
)

// A cleaner makes a stranger's HTML fit for our pages: the marks of text stay, all
// that acts, loads or styles goes, and so does what points to this machine or its
// neighbours.
type sanitizer struct {
	policy *bluemonday.Policy
	strict *bluemonday.Policy // leaves text alone
	// feeds is the policy for readers of feeds: they may ask what their own network
	// has, and know what a relative address is meant against.
	feeds *bluemonday.Policy
}

// maxShown is how much of an item's content a page shows, in bytes.
const maxContent = 64 << 10

func newSanitizer() sanitizer {
	p := bluemonday.UGCPolicy()
	// A relative address would be one of ours.
	p.AllowRelativeURLs(false)
	for _, scheme := range []string{"http", "https"} {
		p.AllowURLSchemeWithCustomPolicy(scheme, isPublic)
	}
	p.RequireNoFollowOnLinks(true)
	p.RequireNoReferrerOnLinks(true)
	p.AddTargetBlankToFullyQualifiedLinks(true)
	return sanitizer{p, bluemonday.StrictPolicy(), bluemonday.UGCPolicy()}
}

// html cleans content. It is read and written as browsers read it first: the
// policy takes tags one by one, and one that closes what it did not open would
// close a part of the page.
func (c sanitizer) html(content string) template.HTML {
	if len(content) > maxContent {
		content = strings.ToValidUTF8(content[:maxContent], "")
	}
	return template.HTML(c.sanitize(c.policy, content))
}

// by cleans content by a policy.
func (c sanitizer) sanitize(policy *bluemonday.Policy, content string) string {
	nodes, err := html.ParseFragment(strings.NewReader(content), &html.Node{Type: html.ElementNode, Data: "div", DataAtom: atom.Div})
	if err != nil { // nested too deeply to be text
		return string(c.strict.SanitizeBytes([]byte(content)))
	}
	var b bytes.Buffer
	for _, n := range nodes {
		if err := html.Render(&b, n); err != nil {
			return ""
		}
	}
	return string(policy.SanitizeBytes(b.Bytes()))
}

// meaning cleans what an item says, for feeds in another format than its source's.
func (c sanitizer) cleanMeaning(m *feed.Meaning) {
	m.Title = html.UnescapeString(string(c.strict.SanitizeBytes([]byte(m.Title))))
	m.Summary, m.Content = c.sanitize(c.feeds, m.Summary), c.sanitize(c.feeds, m.Content)
	if !isWeb(m.Link) {
		m.Link = ""
	}
	m.Enclosures = slices.DeleteFunc(m.Enclosures, func(e feed.Enclosure) bool { return !isWeb(e.URL) })
}

// isWeb reports whether an address is one of the Web, and not a script.
func isWeb(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https")
}

// link is an address of a stranger that may stand on our pages, or nothing.
func (c sanitizer) link(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || !isPublic(u) {
		return ""
	}
	return address
}

// isPublic reports whether an address leads out into the Web, as far as one can
// tell from it. A browser that followed others would ask what only this machine, or
// its network, can reach.
func isPublic(u *url.URL) bool {
	// Browsers take 2130706433, 0x7f.1 and the like for addresses; so does
	// Canonical, which spells them as dotted quads.
	plain, err := feed.Canonical(u.String())
	if err != nil {
		return false
	}
	if u, err = url.Parse(plain); err != nil {
		return false
	}
	host := strings.TrimSuffix(u.Hostname(), ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		return isPublicIP(ip.Unmap())
	}
	if !strings.Contains(host, ".") {
		return false
	}
	for _, suffix := range []string{".localhost", ".local", ".internal", ".lan", ".home.arpa"} {
		if strings.HasSuffix(host, suffix) {
			return false
		}
	}
	return true
}

// nearby are addresses within reach that netip does not call private.
var unroutable = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),      // this host
	netip.MustParsePrefix("100.64.0.0/10"),  // of providers' own networks
	netip.MustParsePrefix("198.18.0.0/15"),  // of laboratories
	netip.MustParsePrefix("240.0.0.0/4"),    // reserved
	netip.MustParsePrefix("::/96"),          // IPv4 within IPv6, by several rules
	netip.MustParsePrefix("64:ff9b::/96"),   //
	netip.MustParsePrefix("64:ff9b:1::/48"), //
	netip.MustParsePrefix("2002::/16"),      //
	netip.MustParsePrefix("fec0::/10"),      // sites' own
}

func isPublicIP(ip netip.Addr) bool {
	for _, p := range unroutable {
		if p.Contains(ip) {
			return false
		}
	}
	return ip.IsGlobalUnicast() && !ip.IsPrivate()
}
