package feed

import (
	"net/url"
	"slices"
	"strings"
)

// StoryLink returns a link without what differs between the feeds that lead to one article: scheme, www., parameters
// that track readers, fragment and final slash. It is "" if the link leads to no article, but to a whole site.
func StoryLink(link string) string {
	address, err := Canonical(link)
	if err != nil {
		return ""
	}
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	parameters := slices.DeleteFunc(strings.Split(u.RawQuery, "&"), func(p string) bool { return p == "" || isTracking(p) })
	if path == "" && len(parameters) == 0 {
		return ""
	}
	return strings.TrimPrefix(u.Host, "www.") + path + "?" + strings.Join(parameters, "&")
}
