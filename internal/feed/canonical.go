package feed

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nlnwa/whatwg-url/canonicalizer"
	whatwgerrors "github.com/nlnwa/whatwg-url/errors"
	whatwg "github.com/nlnwa/whatwg-url/url"

	"tidings/internal/selection"
)

// CanonicalRule is the version of the rule by which [Canonical] writes an address. A channel's id is a hash of
// that address: nodes with different rules would look for one channel in two places. A change that alters a
// line of the rule's test table therefore changes this number, too.
const CanonicalRule = 1

// maxURL bounds an address in bytes. Longer ones are session tokens and mistakes, and an address travels in
// every record of its channel.
const maxURL = 2 << 10

// The errors of an address never repeat it, because a password in it would end up in logs and on pages.
var (
	errURLLong        = errors.New("the address is longer than 2 KiB")
	errURLText        = errors.New("the address is not valid UTF-8")
	errURLScheme      = errors.New("the address does not begin with http:// or https://")
	errURLCredentials = errors.New("the address contains a user name or a password, which other nodes would see: remove it, or subscribe to the address by tidings subscribe, which keeps it private")
	errURLHost        = errors.New("the address has no valid host name")
	errURLPort        = errors.New("the port is not between 1 and 65535")
	errURLOther       = errors.New("the address is not a URL")
	errURLUnstable    = errors.New("the address reads differently each time it is written")
)

// Canonical returns the spelling of a feed's address that identifies its channel. It follows the WHATWG URL
// standard, as browsers do: scheme and host in lower case, international names in ASCII, numeric hosts as
// dotted quads, no default port and no fragment, dot segments resolved, a collapsed https:/host repaired. Path
// and query keep their spelling, with percent-encoding where a URL needs it. http and https are two channels,
// and so are a host with and without a final dot, because origins may answer differently.
//
// As feed readers do, Canonical reads feed:https://host/ as https://host/ and feed://host/ as http://host/. The
// draft of that scheme says http. An origin that has https redirects there, and one without would otherwise be
// unreachable.
//
// The channel of a page has the page's address after "page+", as in page+https://host/, so that one address can
// be both a feed and a page. Its fragment may say what counts on the page; see WhatCounts. DocumentURL removes both.
//
// Canonical refuses addresses that are not http or https, credentials, empty hosts and invalid ports. It
// accepts hosts on private addresses, about which the fetcher decides. Canonical(Canonical(x)) is Canonical(x).
func Canonical(raw string) (string, error) {
	raw, err := stripIgnored(raw)
	if err != nil {
		return "", err
	}
	if isPlain(raw) {
		return raw, nil
	}
	return canonical(raw)
}

// canonical is Canonical for an address without characters that are ignored.
func canonical(raw string) (string, error) {
	if document, isPage := DocumentURL(raw); isPage {
		address, err := serialise(canonicalizer.WhatWg.Parse(document))
		if err != nil {
			return "", err
		}
		rule, err := WhatCounts(raw)
		if err != nil {
			return "", err
		}
		if address = pagePrefix + address; !rule.IsZero() {
			address += "#" + rule.String()
		}
		if len(address) > maxURL {
			return "", errURLLong
		}
		return address, nil
	}
	return serialise(canonicalizer.WhatWg.Parse(stripFeedScheme(raw)))
}

// isPlain reports whether an address is certainly its own canonical form, as most are: it has only characters and parts that the
// standard never rewrites. A node reads each address many times, and the parser takes forty times as long (BenchmarkCanonical).
func isPlain(raw string) bool {
	rest, secure := strings.CutPrefix(raw, "https://")
	rest, plain := strings.CutPrefix(rest, "http://")
	host, path, hasPath := strings.Cut(rest, "/")
	if secure == plain || !hasPath {
		return false
	}
	path, query, hasQuery := strings.Cut(path, "?")
	host, port, hasPort := strings.Cut(host, ":")
	return isPlainHost(host) && (!hasPort || isPlainPort(port)) &&
		!strings.HasPrefix(path, ".") && !strings.Contains(path, "/.") && !strings.ContainsFunc(path, isNotPlainRune) &&
		(!hasQuery || query != "" && !strings.ContainsFunc(query, isNotPlainRune))
}

// isPlainHost reports whether a host is a name without international labels, or a dotted quad.
func isPlainHost(host string) bool {
	switch last := host[strings.LastIndexByte(host, '.')+1:]; {
	case last == "" || strings.ContainsAny(host, "[_"):
		return false
	case last[0] >= '0' && last[0] <= '9':
		address, err := netip.ParseAddr(host)
		return err == nil && address.Is4()
	}
	return isValidHost(host) && !strings.HasPrefix(host, "-") &&
		!strings.HasSuffix(host, "-") && !strings.Contains(host, "--") && !strings.Contains(host, "-.") && !strings.Contains(host, ".-")
}

// isPlainPort reports whether a port has four or five digits. Those of fewer may be that of the scheme.
func isPlainPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n >= 1000 && port[0] != '0' && port[0] != '+'
}

func isNotPlainRune(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("/-_.~=&+,:", r)
}

// pagePrefix precedes the address of a page in its channel's address.
const pagePrefix = "page+"

// PageChannel returns the address of a page's channel.
func PageChannel(document string) (channel string) { return pagePrefix + document }

// DocumentURL returns the address of a channel's document at its origin, and whether the document is a page.
// For a feed it returns the channel's own address.
func DocumentURL(channel string) (address string, isPage bool) {
	if len(channel) >= len(pagePrefix) && strings.EqualFold(channel[:len(pagePrefix)], pagePrefix) {
		address, _, _ = strings.Cut(channel[len(pagePrefix):], "#")
		return address, true
	}
	return channel, false
}

// WhatCounts returns the rule in the fragment of a page's channel: what counts on that page. Other addresses have
// the zero rule.
func WhatCounts(channel string) (selection.Rule, error) {
	if _, isPage := DocumentURL(channel); !isPage {
		return selection.Rule{}, nil
	}
	_, fragment, _ := strings.Cut(channel, "#")
	return selection.Parse(fragment)
}

// WithWhatCounts returns the channel of the page at document that counts what the channel of another address does.
func WithWhatCounts(document, channel string) string {
	if _, fragment, ok := strings.Cut(channel, "#"); ok {
		document += "#" + fragment
	}
	return PageChannel(document)
}

// Resolve returns the canonical form of a reference in the document at base, such as the target of a redirect.
func Resolve(base, ref string) (string, error) {
	base, err := stripIgnored(base)
	if err != nil {
		return "", err
	}
	if ref, err = stripIgnored(ref); err != nil {
		return "", err
	}
	return serialise(canonicalizer.WhatWg.ParseRef(base, ref))
}

// stripIgnored removes the characters that the standard ignores: blanks and control characters around an
// address, tabs and line ends within it.
func stripIgnored(raw string) (string, error) {
	if len(raw) > maxURL {
		return "", errURLLong
	}
	if !utf8.ValidString(raw) {
		return "", errURLText // the standard would map all invalid bytes to one character
	}
	raw = strings.TrimFunc(raw, func(r rune) bool { return r <= ' ' })
	return withoutBreaks.Replace(raw), nil
}

var withoutBreaks = strings.NewReplacer("\t", "", "\n", "", "\r", "")

// stripFeedScheme removes the scheme feed from an address.
func stripFeedScheme(raw string) string {
	const scheme = "feed:"
	if len(raw) < len(scheme) || !strings.EqualFold(raw[:len(scheme)], scheme) {
		return raw
	}
	if rest := raw[len(scheme):]; !strings.HasPrefix(rest, "//") {
		return rest
	}
	return "http:" + raw[len(scheme):]
}

// serialise writes a parsed address, and checks that parsing it again changes nothing.
func serialise(u *whatwg.Url, err error) (string, error) {
	if err = checkURL(u, err); err != nil {
		return "", err
	}
	const noFragment = true
	s := u.Href(noFragment)
	if len(s) > maxURL {
		return "", errURLLong
	}
	if isPlain(s) {
		return s, nil
	}
	again, err := canonicalizer.WhatWg.Parse(s)
	if err != nil || again.Href(noFragment) != s {
		return "", errURLUnstable
	}
	return s, nil
}

func checkURL(u *whatwg.Url, err error) error {
	switch whatwgerrors.Type(err) {
	case "":
	case whatwgerrors.MissingSchemeNonRelativeURL:
		return errURLScheme
	case whatwgerrors.PortOutOfRange, whatwgerrors.PortInvalid:
		return errURLPort
	case whatwgerrors.InvalidCredentials, whatwgerrors.InvalidURLUnit:
		return errURLOther
	default: // the standard's other errors concern the host
		return errURLHost
	}
	switch {
	case err != nil:
		return errURLOther
	case u.Scheme() != "http" && u.Scheme() != "https":
		return errURLScheme
	case u.Username() != "" || u.Password() != "":
		return errURLCredentials
	case u.Port() == "0":
		return errURLPort
	case !isValidHost(u.Hostname()):
		return errURLHost
	}
	return nil
}

// isValidHost reports whether a host is a possible name or an IP address. The standard accepts labels that are
// empty or too long, and characters that other parsers refuse or take for the end of the host.
func isValidHost(host string) bool {
	const maxName, maxLabel = 253, 63 // RFC 1035, section 2.3.4, without the final dot
	if strings.HasPrefix(host, "[") {
		return true
	}
	host = strings.TrimSuffix(host, ".")
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > maxLabel || strings.ContainsFunc(label, isNotHostRune) {
			return false
		}
	}
	return len(host) <= maxName
}

func isNotHostRune(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_'
}
