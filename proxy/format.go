package proxy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"tidings/internal/feed"
	"tidings/internal/locale"
)

// A unit is a unit in which pages and commands give a duration that is less than below: one unit, rounded down.
type unit struct {
	below, is              time.Duration
	span, ago, in, lasting string // texts with the number
}

var units = []unit{
	{2 * time.Minute, time.Second, locale.Key("%d s"), locale.Key("%d s ago"), locale.Key("in %d s"), locale.Key("for %d s")},
	{2 * time.Hour, time.Minute, locale.Key("%d min"), locale.Key("%d min ago"), locale.Key("in %d min"), locale.Key("for %d min")},
	{48 * time.Hour, time.Hour, locale.Key("%d h"), locale.Key("%d h ago"), locale.Key("in %d h"), locale.Key("for %d h")},
	{math.MaxInt64, 24 * time.Hour, locale.Key("%d days"), locale.Key("%d days ago"), locale.Key("in %d days"), locale.Key("for %d days")},
}

// inUnit returns the unit for a duration, and the number of units.
func inUnit(d time.Duration) (unit, int) {
	u := units[len(units)-1]
	for _, smaller := range slices.Backward(units) {
		if d < smaller.below {
			u = smaller
		}
	}
	return u, int(d / u.is)
}

// relative returns how long ago a time was, or how far in the future it is, for people.
func relative(now time.Time, t *time.Time) locale.Text {
	if t == nil {
		return nil
	}
	d := now.Sub(*t)
	u, n := inUnit(max(d, -d))
	switch {
	case -time.Second < d && d < time.Second:
		return locale.Say("now")
	case d < 0:
		return locale.Say(u.in, n)
	}
	return locale.Say(u.ago, n)
}

// lasting returns for how long a state has lasted.
func lasting(now time.Time, since *time.Time) locale.Text {
	if since == nil || now.Sub(*since) < time.Second {
		return locale.Say("just now")
	}
	u, n := inUnit(now.Sub(*since))
	return locale.Say(u.lasting, n)
}

// timeElement returns an element of a page with a time in words, which the script keeps right.
func timeElement(t *time.Time, attribute, words string) template.HTML {
	return template.HTML(`<time datetime="` + iso(t) + `"` + attribute + ">" + template.HTMLEscapeString(words) + "</time>")
}

// scriptTexts returns the texts of the script, as JSON.
func scriptTexts(l *locale.Language) string {
	texts := struct {
		Copy, Copied, CopiedLong, NotCopied, NoCopying, Now, JustNow string
		Units                                                        []map[string]any
	}{l.Say("Copy address"), l.Say("Copied"), l.Say("The address was copied."), l.Say("Not copied"), l.Say("The browser does not allow copying."), l.Say("now"), l.Say("just now"), nil}
	for _, u := range units {
		texts.Units = append(texts.Units, map[string]any{"below": u.below.Seconds(), "is": u.is.Seconds(), "ago": l.Format(u.ago), "in": l.Format(u.in), "for": l.Format(u.lasting)})
	}
	b, _ := json.Marshal(texts) // which has only strings and numbers
	return string(b)
}

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

// SpanText returns a duration for people, in one unit.
func SpanText(d time.Duration) locale.Text {
	u, n := inUnit(d)
	return locale.Say(u.span, n)
}

// FormatSpan formats a duration for people, in one unit.
func FormatSpan(d time.Duration) string {
	return SpanText(d).String()
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

// provenanceNote explains a provenance in one sentence. It is empty if the word is clear.
func provenanceNote(provenance string) locale.Text {
	switch {
	case provenance == "single":
		return locale.Say("One node found this on the web server, and no other node and no signature confirms it")
	case strings.HasPrefix(provenance, ProvenanceWitnessed):
		return locale.Say("That many of the nodes that keep this feed found this on the web server themselves")
	case provenance == "contested":
		return locale.Say("Most of the nodes that keep this feed looked for this on the web server and did not find it")
	case provenance == "varies":
		return locale.Say("The web server shows each node something else here")
	case provenance == "unconfirmed":
		return locale.Say("The network says that this key belongs to the feed, and this node has not seen the key on the web server")
	}
	return nil
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
