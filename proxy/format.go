package proxy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"tidings/internal/feed"
)

// formatRelative returns how long ago a time was, or how far in the future it is, for people.
func formatRelative(now time.Time, t *time.Time) string {
	if t == nil {
		return ""
	}
	d := now.Sub(*t)
	if -time.Second < d && d < time.Second {
		return "now"
	}
	if d < 0 {
		return "in " + FormatSpan(-d)
	}
	return FormatSpan(d) + " ago"
}

// formatDuration returns for how long a state has lasted.
func formatDuration(now time.Time, since *time.Time) string {
	if since == nil || now.Sub(*since) < time.Second {
		return "just now"
	}
	return "for " + FormatSpan(now.Sub(*since))
}

// formatSecondsPtr is formatSeconds for a known number.
func formatSecondsPtr(seconds *float64) string { return formatSeconds(*seconds) }

// sentence converts a text to a sentence: it capitalises the first letter and adds a full stop. A leading address
// keeps its first letter. A trailing address gets no full stop, because somebody could copy it with the address.
func sentence(s string) string {
	if s == "" {
		return ""
	}
	first, _, _ := strings.Cut(s, " ")
	if !strings.ContainsAny(first, "/.@") {
		r, size := utf8.DecodeRuneInString(s)
		s = string(unicode.ToUpper(r)) + s[size:]
	}
	last := s[strings.LastIndexByte(s, ' ')+1:]
	if strings.Contains(last, "/") || strings.HasSuffix(last, ".") || strings.HasSuffix(last, "?") || strings.HasSuffix(last, "…") {
		return s
	}
	return s + "."
}

// FormatSpan formats a duration for people, in one unit.
func FormatSpan(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 2*time.Minute:
		return strconv.Itoa(int(d/time.Second)) + " s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + " min"
	case d < 2*day:
		return strconv.Itoa(int(d/time.Hour)) + " h"
	}
	return strconv.Itoa(int(d/day)) + " days"
}

func iso(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// hostOf returns the host of an address, by which people recognise a feed.
func hostOf(channel string) string {
	if name, ok := strings.CutPrefix(channel, PrivateName); ok {
		host, _, _ := strings.Cut(name, "/")
		return host
	}
	address, _ := feed.DocumentURL(channel)
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return strings.TrimPrefix(u.Host, "www.")
}

// Plural returns a number followed by the singular or the plural of a word.
func Plural[T int | int64 | uint64 | uint32](n T, one, many string) string {
	if n == 1 {
		many = one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// provenanceName returns the word by which pages show an item's provenance. "single" alone would not say that the
// item is vouched for by a single node.
func provenanceName(provenance string) string {
	if provenance == "single" {
		return "one node"
	}
	return provenance
}

// provenanceNote explains a provenance in one sentence, or returns "" if the word is clear.
func provenanceNote(provenance string) string {
	switch {
	case provenance == "single":
		return "One node found this on the web server, and no other node and no signature confirms it"
	case strings.HasPrefix(provenance, ProvenanceWitnessed):
		return "That many of the nodes that keep this feed found this on the web server themselves"
	case provenance == "contested":
		return "Most of the nodes that keep this feed looked for this on the web server and did not find it"
	case provenance == "varies":
		return "The web server shows each node something else here"
	case provenance == "unconfirmed":
		return "The network says that this key belongs to the feed, and this node has not seen the key on the web server"
	}
	return ""
}

// formatCount formats a number for people, with commas.
func formatCount(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// rowID returns the id of a subscription's row on pages, by which live updates find it.
func rowID(address string) string {
	sum := sha256.Sum256([]byte(address))
	return "r" + hex.EncodeToString(sum[:6])
}

// ShortURL returns the address without its scheme, for lists in which people tell feeds of one name apart.
func (c channelView) ShortURL() string {
	short := strings.TrimPrefix(c.URL, "https://")
	return strings.TrimPrefix(short, "http://")
}
