package proxy

import (
	"context"
	"hash/fnv"
	"io"
	"net/http"
	"slices"
	"strings"

	"tidings/internal/feed"
)

// maxPastVersions is the number of earlier versions of a feed, in a format, whose readers can get only what is new since
// then: those of some hours of a busy feed. A version takes 8 bytes for each of its entries. Readers that have an older
// version get the whole feed.
const maxPastVersions = 16

// deltaReaders lists how the User-Agents begin that are known to merge an answer with status 226 with what they have.
// Other readers ask for such answers, too (A-IM: feed), and then take the status for an error: rss2email does.
var deltaReaders = []string{"newsboat/", "tidings/"}

// A pastVersion is an earlier version of a rendered feed.
type pastVersion struct {
	tag, gzipTag string
	entries      []uint64
}

// entryVersions returns a hash of each entry, which changes when the entry does.
func entryVersions(entries []feed.Entry) []uint64 {
	versions := make([]uint64, len(entries))
	for i := range entries {
		e, h := &entries[i], fnv.New64a()
		_, _ = h.Write(e.Item.ID[:]) // writes to a hash do not fail
		_, _ = h.Write(e.Item.Hash[:])
		if e.Withdrawn {
			_, _ = h.Write([]byte{1})
		}
		_, _ = io.WriteString(h, e.Provenance)
		versions[i] = h.Sum64()
	}
	return versions
}

// remember takes over the earlier versions of the last rendering, and that rendering itself if it was another one.
func (f *rendered) remember(last *rendered) {
	if last == nil {
		return
	}
	f.past = last.past
	if last.tag != f.tag {
		f.past = append(slices.Clip(last.past), pastVersion{last.tag, last.gzipTag, last.entries})
		f.past = f.past[max(0, len(f.past)-maxPastVersions):]
	}
}

// delta returns what is new in a feed since the version that its reader has (RFC 3229 with the method "feed"). It returns f
// itself if the reader does not ask for that, is not known to understand it, has this version or none that is remembered,
// or if the whole feed is no larger.
func (s *Server) delta(ctx context.Context, r *http.Request, t target, f *rendered) *rendered {
	agent := func(name string) bool { return strings.HasPrefix(r.UserAgent(), name) }
	if weights(r.Header.Values("A-IM"))["feed"] <= 0 || !slices.ContainsFunc(deltaReaders, agent) || len(f.past) == 0 {
		return f
	}
	match := strings.Join(r.Header.Values("If-None-Match"), ",")
	if strings.Contains(match, "*") || matches(match, f.tag) || matches(match, f.gzipTag) {
		return f // it has this version, perhaps in another coding
	}
	had := slices.IndexFunc(f.past, func(p pastVersion) bool { return matches(match, p.tag) || matches(match, p.gzipTag) })
	if had < 0 {
		return f
	}
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	w, err := s.subs.Read(ctx, t.url)
	if err != nil || w.Version != f.version {
		return f
	}
	known := map[uint64]bool{}
	for _, v := range f.past[had].entries {
		known[v] = true
	}
	entries := shownEntries(w, t)
	w.Document.Entries = nil
	for i, v := range entryVersions(entries) {
		if !known[v] {
			w.Document.Entries = append(w.Document.Entries, entries[i])
		}
	}
	if len(w.Document.Entries) == 0 {
		return f // only the head has changed, or something has been removed
	}
	release, err := s.renderSlot(ctx)
	if err != nil {
		return f
	}
	defer release()
	part, err := render(w, t, f.subscribed, nil, s.pages.sanitiser.cleanMeaning, s.config.Now())
	if err != nil || len(part.body) >= len(f.body) {
		return f
	}
	d := *f
	d.body, d.gzipped, d.partial = part.body, part.gzipped, true
	return &d
}
