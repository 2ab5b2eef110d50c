package feed

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/nlnwa/whatwg-url/canonicalizer"
	whatwgerrors "github.com/nlnwa/whatwg-url/errors"
	whatwg "github.com/nlnwa/whatwg-url/url"
)

// CanonicalRule is the version of the rule by which [Canonical] spells an
// address. A channel's id is a hash of that spelling: nodes that spell
// differently look for one channel in two places, so whatever changes a line of
// the rule's table of tests changes this number too.
const CanonicalRule = 1

// maxURL is how many bytes of an address are read and written. Longer ones are
// session tokens and mistakes, and an address travels in every record of its
// channel.
const maxURL = 2 << 10

// What is wrong with an address. None of them repeats it: a password in it would
// end in logs and on pages.
var (
	errURLLong        = errors.New("the address is longer than 2 KiB")
	errURLText        = errors.New("the address is not valid UTF-8")
	errURLScheme      = errors.New("the address does not begin with http:// or https://")
	errURLCredentials = errors.New("the address contains a user name or a password, which other nodes would see: remove it")
	errURLHost        = errors.New("the address has no valid host name")
	errURLPort        = errors.New("the port is not between 1 and 65535")
	errURLOther       = errors.New("the address is not a URL")
	errURLUnstable    = errors.New("the address reads differently each time it is written")
)

// Canonical returns the one spelling of a feed's address that stands for its
// channel. It is the WHATWG URL standard's, as browsers have it: scheme and host
// in lower case, international names in their ASCII form, numbers for hosts
// written as dotted quads, default ports and the fragment dropped, dot segments
// resolved, a collapsed https:/host repaired. Path and query stay as they are,
// with what may not stand in a URL percent-encoded; http and https are two
// channels, and so are host and host with a final dot, because origins may
// answer differently.
//
// As feed readers do, it takes feed:https://host/ for https://host/ and
// feed://host/ for http://host/: the draft of that scheme says http, an origin
// that has https redirects there, and one that has not would be lost otherwise.
//
// A channel that is a page, not a feed, has the page's address behind "page+", as in
// page+https://host/: so one address can be both. AtOrigin takes that off.
//
// Canonical refuses what is no http or https address, credentials, empty hosts
// and ports nobody can dial. It does not refuse hosts on private addresses; who
// dials does. Canonical(Canonical(x)) is Canonical(x).
func Canonical(raw string) (string, error) {
	raw, err := stripIgnored(raw)
	if err != nil {
		return "", err
	}
	if document, isPage := DocumentURL(raw); isPage {
		of, err := serialize(canonicalizer.WhatWg.Parse(document))
		if err != nil {
			return "", err
		}
		if len(pagePrefix+of) > maxURL {
			return "", errURLLong
		}
		return pagePrefix + of, nil
	}
	return serialize(canonicalizer.WhatWg.Parse(stripFeedScheme(raw)))
}

// pagePrefix stands before the address of a page that is a channel.
const pagePrefix = "page+"

// Page returns the address of the channel that a page is.
func PageChannel(document string) (channel string) { return pagePrefix + document }

// AtOrigin returns the address at which a channel's document is found, and whether it is a
// page. It is the channel's own but for a page.
func DocumentURL(channel string) (address string, isPage bool) {
	if len(channel) >= len(pagePrefix) && strings.EqualFold(channel[:len(pagePrefix)], pagePrefix) {
		return channel[len(pagePrefix):], true
	}
	return channel, false
}

// Resolve returns the canonical form of a reference found in the document at
// base, such as the target of a redirect.
func Resolve(base, ref string) (string, error) {
	base, err := stripIgnored(base)
	if err != nil {
		return "", err
	}
	if ref, err = stripIgnored(ref); err != nil {
		return "", err
	}
	return serialize(canonicalizer.WhatWg.ParseRef(base, ref))
}

// plain returns an address without what the standard ignores: blanks and control
// characters around it, tabs and ends of lines within.
func stripIgnored(raw string) (string, error) {
	if len(raw) > maxURL {
		return "", errURLLong
	}
	if !utf8.ValidString(raw) {
		return "", errURLText // the standard would make all of them one
	}
	raw = strings.TrimFunc(raw, func(r rune) bool { return r <= ' ' })
	return withoutBreaks.Replace(raw), nil
}

var withoutBreaks = strings.NewReplacer("\t", "", "\n", "", "\r", "")

// unfeed takes the scheme feed off an address.
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

// settle writes an address that has been parsed, and sees that reading it again
// changes nothing.
func serialize(u *whatwg.Url, err error) (string, error) {
	if err = checkURL(u, err); err != nil {
		return "", err
	}
	const noFragment = true
	s := u.Href(noFragment)
	if len(s) > maxURL {
		return "", errURLLong
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
	default: // the standard's other faults are all the host's
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

// nameOrAddress reports whether a host could be the name of one, or is an
// address. The standard lets pass labels that are empty or too long, and signs
// that other readers of URLs refuse or take for the host's end.
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
