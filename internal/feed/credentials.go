package feed

import (
	"net/url"

	"github.com/nlnwa/whatwg-url/canonicalizer"
)

// SplitCredentials returns the canonical form of a feed's address without its user name and password, and these
// two, decoded. Canonical alone refuses such an address, because other nodes would see the password. The address of
// a page is refused, because only feeds can be private.
func SplitCredentials(raw string) (address, user, password string, err error) {
	if raw, err = stripIgnored(raw); err != nil {
		return "", "", "", err
	}
	u, err := canonicalizer.WhatWg.Parse(stripFeedScheme(raw))
	if err != nil {
		return "", "", "", checkURL(u, err)
	}
	user, password = decoded(u.Username()), decoded(u.Password())
	u.SetUsername("")
	u.SetPassword("")
	address, err = serialise(u, nil)
	return address, user, password, err
}

// decoded removes the percent-encoding of a user name or password. The parser has made it valid.
func decoded(s string) string {
	if plain, err := url.PathUnescape(s); err == nil {
		return plain
	}
	return s
}
