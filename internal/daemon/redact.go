package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"strings"
)

// Logs are kept for a long time and are sent to others for help. The address of a feed shows what a user
// reads, and may contain a secret key. Log records at INFO and above therefore have only the host of an
// address and the beginning of its hash, by which lines about one feed can be found. DEBUG records have whole
// addresses, for people who look for a fault on the machine itself.

// address matches the addresses in a text, up to white space or a character that cannot be part of one.
var address = regexp.MustCompile(`(?i)(?:page\+)?(?:https?|feed):[/\\]{1,2}[^\s"<>]+`)

// addressEnd is the punctuation that may follow an address in a text.
const addressEnd = `.,:;!?)]}'`

// hashDigits is the number of hexadecimal digits shown of the hash of an address: enough to tell apart the
// feeds of one node.
const hashDigits = 8

// redact replaces the addresses in a text.
func redact(text string) string {
	return address.ReplaceAllStringFunc(text, func(found string) string {
		whole := strings.TrimRight(found, addressEnd)
		sum := sha256.Sum256([]byte(whole))
		host := "address"
		if u, err := url.Parse(strings.TrimPrefix(whole, "page+")); err == nil && u.Host != "" {
			host = u.Host // without user name and password
		}
		return host + "#" + hex.EncodeToString(sum[:])[:hashDigits] + found[len(whole):]
	})
}

// A redactor is a log handler that redacts addresses in messages and in all attributes.
type redactor struct {
	slog.Handler
	whole slog.Handler // the same handler with unredacted attributes, for DEBUG
}

func newRedactor(h slog.Handler) slog.Handler { return redactor{h, h} }

// Handle implements [slog.Handler].
func (r redactor) Handle(ctx context.Context, record slog.Record) error {
	if record.Level < slog.LevelInfo {
		return r.whole.Handle(ctx, record)
	}
	redacted := slog.NewRecord(record.Time, record.Level, redact(record.Message), record.PC)
	record.Attrs(func(a slog.Attr) bool {
		redacted.AddAttrs(redactAttr(a))
		return true
	})
	return r.Handler.Handle(ctx, redacted)
}

// WithAttrs implements [slog.Handler].
func (r redactor) WithAttrs(attrs []slog.Attr) slog.Handler {
	redacted := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		redacted[i] = redactAttr(a)
	}
	return redactor{r.Handler.WithAttrs(redacted), r.whole.WithAttrs(attrs)}
}

// WithGroup implements [slog.Handler].
func (r redactor) WithGroup(name string) slog.Handler {
	return redactor{r.Handler.WithGroup(name), r.whole.WithGroup(name)}
}

func redactAttr(a slog.Attr) slog.Attr {
	switch v := a.Value.Resolve(); v.Kind() {
	case slog.KindString:
		return slog.String(a.Key, redact(v.String()))
	case slog.KindGroup:
		group := make([]any, len(v.Group()))
		for i, attr := range v.Group() {
			group[i] = redactAttr(attr)
		}
		return slog.Group(a.Key, group...)
	case slog.KindAny: // such as an error or a list
		if text := fmt.Sprint(v.Any()); address.MatchString(text) {
			return slog.String(a.Key, redact(text))
		}
	}
	return a
}
