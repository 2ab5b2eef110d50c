package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"tidings/internal/feed"
	"tidings/internal/locale"
)

// ImportResult is the result of importing a list.
type ImportResult struct {
	Subscribed int             `json:"subscribed"` // including those in Already
	Already    int             `json:"already"`    // number that existed before
	Found      int             `json:"found"`      // number of entries that name a page, for which the page's feed was subscribed to
	Failed     []ImportFailure `json:"failed"`
}

// New returns the number of new subscriptions.
func (i ImportResult) New() int { return i.Subscribed - i.Already }

// ImportFailure is an entry of a list that could not be subscribed to.
type ImportFailure struct {
	URL     string   `json:"url"` // "" if it cannot be read
	Error   string   `json:"error"`
	Line    int      `json:"line,omitempty"`    // of the list, if the entry cannot be read
	Choices []Choice `json:"choices,omitempty"` // what can be subscribed to instead
}

// ImportProgress says how far an import has come. It is one line of the answer if the request asks for progress; ImportResult,
// or ErrorResponse, is the last line.
type ImportProgress struct {
	State string `json:"state"` // as the states of an importRun
	Done  int    `json:"done"`  // addresses for which the state has nothing more to do
	All   int    `json:"all"`   // addresses for which it had something to do at first
}

const (
	// parallelInspections is how many addresses of a list are inspected at the same time.
	parallelInspections = 16
	// parallelImports is how many addresses of a list are subscribed to at the same time. They share the syncs of the node's
	// disk, so a disk that takes 20 ms for one stores ten thousand a second.
	parallelImports = 256
	// progressPause is the time between two lines of ImportProgress.
	progressPause = time.Second
)

// An importEntry is an entry of a list.
type importEntry struct {
	place       int    // in the list, from 1
	written     string // the address as the list has it
	address     string // what to subscribe to
	private     bool   // only this node polls it
	bookmark    bool   // the address is that of a page whose feed is wanted
	found       bool   // a page advertises it
	title       string
	folder      string
	description Description // the user's words about it
	err         error       // why it cannot be subscribed to
}

// readList reads a list of any kind. Lines that cannot be read are failures.
func (s *Server) readList(r *http.Request, doc []byte) (entries []*importEntry, unread []importFailed, kind feed.ListKind, err error) {
	list, err := feed.ParseList(doc)
	if err != nil {
		return nil, nil, 0, refuse(http.StatusBadRequest, "%v", err)
	}
	for _, u := range list.Unread {
		unread = append(unread, importFailed{ImportFailure: ImportFailure{Error: u.Why, Line: u.Line}, Why: &reason{locale.Verbatim(u.Why), true}})
	}
	for folder, o := range feed.Subscriptions(list.Outlines) {
		e := &importEntry{
			place: len(entries) + 1, written: o.XMLURL, address: o.XMLURL, folder: folder, private: s.isPrivateAddress(o.XMLURL),
			bookmark: list.Kind == feed.ListBookmarks && o.Type == feed.TypeLink,
		}
		if !e.private {
			e.address, e.err = s.resolveAddress(r, o.XMLURL)
		}
		if folder != "" {
			e.description.Tags = normalizeTags([]string{folder})
		}
		if site, err := feed.Canonical(o.HTMLURL); err == nil {
			e.description.Site = site
		}
		if title := oneLine(feed.PlainTitle(o.Text)); len(title) <= maxTitle && title != o.XMLURL && title != e.address {
			e.title = title
		}
		entries = append(entries, e)
	}
	if len(entries)+len(unread) == 0 {
		return nil, nil, 0, refuse(http.StatusBadRequest, "the list contains no feeds")
	}
	return entries, unread, list.Kind, nil
}

// importNow imports a list and waits for the end. It ends early with the request.
func (s *Server) importNow(w http.ResponseWriter, r *http.Request, doc []byte) (ImportResult, error) {
	answer := http.NewResponseController(w)
	_ = answer.SetWriteDeadline(time.Time{}) // an error means that the connection is not one of http.Server
	defer func() { _ = answer.SetWriteDeadline(time.Now().Add(writeTime)) }()
	entries, unread, kind, err := s.readList(r, doc)
	if err != nil {
		return ImportResult{}, err
	}
	if kind == feed.ListBookmarks {
		return ImportResult{}, refuse(http.StatusBadRequest, "the file has bookmarks, of which many lead to no feed: choose those to follow on the page http://%s%s", r.Host, listsPath)
	}
	run, err := s.beginImport(r.Context(), r, entries, unread)
	if err != nil {
		return ImportResult{}, err
	}
	if r.URL.Query().Get("progress") == "1" {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Type", linesType)
		run.follow(func(p ImportProgress) {
			_ = answer.SetWriteDeadline(time.Now().Add(writeTime)) // for a program that does not read; the import goes on
			_ = json.NewEncoder(w).Encode(p)                       // an error means that the program has disconnected, which ends the import
			_ = answer.Flush()
		})
	}
	return run.wait()
}

// linesType is the type of an answer that has a JSON object in each line.
const linesType = "application/x-ndjson"

// follow calls tell with the progress, every progressPause, until the import has ended.
func (r *importRun) follow(tell func(ImportProgress)) {
	tick := time.NewTicker(progressPause)
	defer tick.Stop()
	for {
		r.mu.Lock()
		p := ImportProgress{State: r.state, Done: r.done, All: r.all}
		r.mu.Unlock()
		tell(p)
		select {
		case <-r.finished:
			return
		case <-tick.C:
		}
	}
}

// beginImport begins to import entries. It ends early with ctx.
func (s *Server) beginImport(ctx context.Context, r *http.Request, entries []*importEntry, unread []importFailed) (*importRun, error) {
	return s.imports.begin(ctx, s.config.Now(), func(ctx context.Context, run *importRun) error {
		for _, u := range unread {
			run.fail(u)
		}
		return s.importEntries(r.WithContext(ctx), run, entries)
	})
}

// errNotReached is the error for what an import that was stopped had not come to.
var errNotReached = refuse(http.StatusServiceUnavailable, "not subscribed to, because the import was stopped before")

// importEntries subscribes to all entries. One that fails does not stop the import.
func (s *Server) importEntries(r *http.Request, run *importRun, entries []*importEntry) error {
	existing, err := s.subscriptions(r.Context())
	if err != nil && r.Context().Err() == nil {
		return err
	}
	s.discover(r.Context(), run, entries, existing)
	all := run.merged(entries)
	run.enter(importSubscribing, len(all))
	inParallel(all, parallelImports, func(e *importEntry) {
		already, err := false, r.Context().Err()
		if err == nil {
			already, err = s.subscribeEntry(r, e, existing)
		}
		switch {
		case err == nil:
			run.subscribed(already, e.found)
		case r.Context().Err() != nil:
			run.fail(e.failed(errNotReached))
		default:
			run.fail(e.failed(err))
		}
		run.step()
	})
	return nil
}

// merged returns the entries that can be subscribed to, each address once, with what all entries say about it. The
// others are failures.
func (r *importRun) merged(entries []*importEntry) (all []*importEntry) {
	byAddress := map[string]*importEntry{}
	for _, e := range entries {
		if e.err != nil {
			r.fail(e.failed(e.err))
			continue
		}
		if e.title != e.address {
			e.description.Title = e.title
		}
		first, seen := byAddress[e.address]
		if !seen {
			byAddress[e.address] = e
			all = append(all, e)
			continue
		}
		first.found = first.found || e.found
		d := &first.description
		d.Title, d.Site = cmp.Or(d.Title, e.description.Title), cmp.Or(d.Site, e.description.Site)
		d.Tags = append(d.Tags, e.description.Tags...)
	}
	return all
}

// failed returns the failure of an entry.
func (e *importEntry) failed(err error) importFailed {
	e.err = nil // for another attempt
	place, f := e.place, ImportFailure{URL: oneLine(WithoutPassword(e.written)), Error: oneLine(err.Error())}
	if c, ok := errors.AsType[*choiceError](err); ok {
		f.Choices = c.choices
	}
	if e.address == "" { // another attempt would fail, too
		e = nil
	}
	return importFailed{place, f, reasonOf(err), e}
}

// subscribeEntry subscribes to an entry. The list adds to the tags of an existing subscription.
func (s *Server) subscribeEntry(r *http.Request, e *importEntry, existing map[string]Channel) (already bool, err error) {
	d, known := e.description, e.address
	if name, ok := s.findPrivate(e.address); ok { // also if it is what the page at the entry's address advertises
		known = name
	}
	if d.Tags != nil {
		d.Tags = normalizeTags(append(slices.Clone(existing[known].Tags), d.Tags...))
	}
	if e.private {
		done, err := s.subscribePrivately(r, PrivateFeed{Address: e.address, Description: d, Later: true})
		return done.Already, err
	}
	err = s.subs.SubscribeAs(r.Context(), e.address, d)
	c, ok := existing[known]
	return ok && !c.Auto, err
}

const (
	// maxDiscovered bounds the addresses of a list that are inspected, so that a list cannot make the node send
	// thousands of requests at once. Others are subscribed to as they are, and their first poll tells what they are.
	maxDiscovered = 256
	// discoverTime bounds the time of all these inspections together. Most web servers answer within a second.
	discoverTime = time.Minute
)

// discover inspects the new addresses of a list, as subscribe does, those first that do not look like feeds. An address
// that cannot be read now stays as it is: a list is often imported to save subscriptions from elsewhere, and the web
// server may be back tomorrow. A bookmark that cannot be read is a failure, because it may not be a feed at all.
func (s *Server) discover(ctx context.Context, run *importRun, entries []*importEntry, existing map[string]Channel) {
	ctx, cancel := context.WithTimeout(ctx, discoverTime)
	defer cancel()
	byAddress := map[string][]*importEntry{}
	var unknown []string
	for _, e := range entries {
		if _, ok := existing[e.address]; ok || e.private || e.err != nil {
			continue
		}
		if byAddress[e.address] == nil {
			unknown = append(unknown, e.address)
		}
		byAddress[e.address] = append(byAddress[e.address], e)
	}
	slices.SortStableFunc(unknown, func(a, b string) int { return cmp.Compare(feedWords(a), feedWords(b)) })
	unknown = unknown[:min(len(unknown), maxDiscovered)]
	run.enter(importInspecting, len(unknown))
	inParallel(unknown, parallelInspections, func(address string) {
		inspectCtx, cancel := context.WithTimeout(ctx, inspectTime)
		defer cancel()
		to, _, unread, err := s.chooseTarget(inspectCtx, address)
		_, isChoice := errors.AsType[*choiceError](err)
		for _, e := range byAddress[address] {
			switch {
			case err == nil && unread != nil && e.bookmark:
				e.err = unread
			case err == nil:
				e.address, e.found = to, to != address
			case isChoice || errors.Is(err, ErrNotFeed) || errors.Is(err, ErrNotPage) || e.bookmark:
				e.err = err
			}
		}
		run.step()
	})
}

// feedWords counts the words in an address that addresses of feeds have.
func feedWords(address string) (n int) {
	for _, word := range []string{"feed", "rss", "atom", "xml", "rdf", "json"} {
		n += strings.Count(strings.ToLower(address), word)
	}
	return n
}

// inParallel calls f for every thing of a list, for so many at the same time.
func inParallel[T any](things []T, most int, f func(T)) {
	slots := make(chan struct{}, most)
	var all sync.WaitGroup
	for _, thing := range things {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			f(thing)
		})
	}
	all.Wait()
}
