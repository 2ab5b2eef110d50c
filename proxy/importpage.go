package proxy

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidings/internal/feed"
	"tidings/internal/locale"
)

const (
	listsPath  = "/lists"
	importPath = "/import"
)

const (
	// importPatience is how long a form waits for its import, so that a short list needs no page that changes.
	importPatience = 500 * time.Millisecond
	// importRows is the number of failures, or of bookmarks, on a page. The bookmarks of a page can all be chosen, so they
	// are no more than the addresses that an import inspects.
	importRows = 100
	// importRefresh is the time after which the page of an import is loaded again by browsers without scripts, in seconds.
	importRefresh = 2
)

// An importView is what a page shows of an import.
type importView struct {
	ImportResult
	ID          string
	State       string
	Done, All   int
	Began       *time.Time
	Error       *reason        // why it has ended at once; nil if it has not
	Failures    []importFailed // on this page
	FailedCount int
	CanRetry    bool
	Offered     []offeredFolder // on this page
	OfferCount  int             // bookmarks that can be chosen
	OfferFound  int             // those of them that match the search
	Search      string
	pager
}

// An offeredFolder is a folder of bookmarks.
type offeredFolder struct {
	Folder  string
	Entries []offeredEntry
}

// An offeredEntry is a bookmark.
type offeredEntry struct {
	Place    int
	Title    string // or the address
	Host     string
	Bookmark bool // its feed has to be found
}

// Ended reports whether the import changes no more by itself.
func (v importView) Ended() bool {
	return v.State == importDone || v.State == importStopped || v.State == importOffered
}

// Refresh returns the seconds after which a browser without scripts loads the page again, or 0.
func (v importView) Refresh() int {
	if v.Ended() {
		return 0
	}
	return importRefresh
}

// LiveAddress returns the address of the stream that tells of the progress.
func (v importView) LiveAddress() string {
	return withQuery(livePath, url.Values{"import": {v.ID}})
}

// view returns what a page shows.
func (r *importRun) view(page int, search string) importView {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := importView{
		ImportResult: r.result, ID: r.id, State: r.state, Done: r.done, All: r.all, Began: OptionalTime(r.began), FailedCount: len(r.failed),
		OfferCount: len(r.offered), Search: search,
		CanRetry: slices.ContainsFunc(r.failed, importFailed.CanRetry),
	}
	if r.err != nil {
		v.Error = reasonOf(r.err)
	}
	words := strings.Fields(strings.ToLower(search))
	var offered []*importEntry
	for _, e := range r.offered {
		if containsWords(words, e.title, e.written, "", "", "", []string{e.folder}) {
			offered = append(offered, e)
		}
	}
	v.OfferFound = len(offered)
	address := func(page int) string {
		q := url.Values{"id": {v.ID}, "page": {strconv.Itoa(page)}}
		if search != "" {
			q.Set("q", search)
		}
		return withQuery(importPath, q)
	}
	if r.state == importOffered {
		offered, v.pager = pageOf(offered, page, importRows, address)
	} else {
		v.Failures, v.pager = pageOf(slices.Clone(r.failed), page, importRows, address)
	}
	for _, e := range offered {
		if n := len(v.Offered); n == 0 || v.Offered[n-1].Folder != e.folder {
			v.Offered = append(v.Offered, offeredFolder{Folder: e.folder})
		}
		in := &v.Offered[len(v.Offered)-1]
		in.Entries = append(in.Entries, offeredEntry{e.place, titleOrAddress(e.title, WithoutPassword(e.written)), hostOf(e.address), e.bookmark})
	}
	return v
}

// listsPage imports and exports lists.
func (s *Server) listsPage(w http.ResponseWriter, r *http.Request) error {
	var p struct {
		Latest []importView
		Found  []ReaderList
	}
	for _, run := range s.imports.latest() {
		p.Latest = append(p.Latest, run.view(1, ""))
	}
	p.Found = s.foundLists()
	return s.writePage(w, r, http.StatusOK, "lists.html", locale.Say("Import and export"), p)
}

// importForm begins to import a list that a person has uploaded.
func (s *Server) importForm(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxListSize)
	if err := bodyError(r.ParseMultipartForm(maxListSize)); err != nil {
		return err
	}
	file, _, err := r.FormFile("list")
	if err != nil {
		return refuse(http.StatusBadRequest, "no file chosen")
	}
	doc, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	return s.importFile(w, r, doc)
}

// importFile begins to import a list, and shows the import. Of bookmarks, a person has to choose first.
func (s *Server) importFile(w http.ResponseWriter, r *http.Request, doc []byte) error {
	entries, unread, kind, err := s.readList(r, doc)
	if err != nil {
		return err
	}
	if kind != feed.ListBookmarks {
		return s.importInBackground(w, r, entries, unread)
	}
	existing, err := s.subscriptions(r.Context())
	if err != nil {
		return err
	}
	entries = slices.DeleteFunc(entries, func(e *importEntry) bool {
		_, known := existing[e.address]
		return e.err != nil || known
	})
	if len(entries) == 0 {
		return refuse(http.StatusBadRequest, "the file has no bookmarks that lead to the Web and that you do not follow already")
	}
	run, err := s.imports.offer(entries, s.config.Now())
	if err != nil {
		return err
	}
	http.Redirect(w, r, run.path(), http.StatusSeeOther)
	return nil
}

// importInBackground begins an import that goes on when the browser has left, and shows it.
func (s *Server) importInBackground(w http.ResponseWriter, r *http.Request, entries []*importEntry, unread []importFailed) error {
	run, err := s.beginImport(context.WithoutCancel(r.Context()), r, entries, unread)
	if err != nil {
		return err
	}
	patience := time.NewTimer(importPatience)
	defer patience.Stop()
	select {
	case <-run.finished:
	case <-patience.C:
	case <-r.Context().Done():
	}
	http.Redirect(w, r, run.path(), http.StatusSeeOther)
	return nil
}

// path returns the address of the import's page.
func (r *importRun) path() string { return withQuery(importPath, url.Values{"id": {r.id}}) }

// importPage shows an import.
func (s *Server) importPage(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	run, err := s.imports.find(q.Get("id"))
	if err != nil {
		return err
	}
	page, _ := strconv.Atoi(q.Get("page"))
	return s.writePage(w, r, http.StatusOK, "imported.html", locale.Say("Import"), run.view(page, oneLine(q.Get("q"))))
}

// importActionForm imports a list that was found on this machine, stops an import, tries again what has failed, or imports the
// bookmarks that a person has chosen.
func (s *Server) importActionForm(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r, maxSelection); err != nil {
		return err
	}
	if path := r.PostForm.Get("found"); path != "" {
		return s.importFound(w, r, path)
	}
	run, err := s.imports.find(r.PostForm.Get("id"))
	if err != nil {
		return err
	}
	switch do := r.PostForm.Get("do"); do {
	case "stop":
		run.stop()
		http.Redirect(w, r, run.path(), http.StatusSeeOther)
		return nil
	case "retry":
		return s.retryForm(w, r, run)
	case "retry all":
		entries := run.takeAll()
		if len(entries) == 0 {
			s.redirectWith(w, r, run.path(), message{Text: locale.Say("Nothing is left to retry")})
			return nil
		}
		err := s.importInBackground(w, r, entries, nil)
		if err != nil { // nothing is lost
			for _, e := range entries {
				run.fail(e.failed(err))
			}
		}
		return err
	case "choose":
		return s.chooseForm(w, r, run)
	}
	return refuse(http.StatusBadRequest, "the form does not say what to do with the import")
}

// retryForm tries one entry again, or subscribes to what a person has chosen in its place.
func (s *Server) retryForm(w http.ResponseWriter, r *http.Request, run *importRun) error {
	place, _ := strconv.Atoi(r.PostForm.Get("place"))
	entry, ok := run.take(place)
	if !ok {
		s.redirectWith(w, r, run.path(), message{Text: locale.Say("This entry was retried already")})
		return nil
	}
	if choice := r.PostForm.Get("choice"); choice != "" {
		address, err := s.resolveAddress(r, choice)
		if err != nil {
			run.fail(entry.failed(err))
			return err
		}
		entry.address, entry.bookmark, entry.private = address, false, false
	}
	var attempt importRun
	if err := s.importEntries(r, &attempt, []*importEntry{entry}); err != nil {
		run.fail(entry.failed(err))
		return err
	}
	run.merge(&attempt)
	m := message{Text: locale.Say("Subscribed to %s", titleOrAddress(entry.title, WithoutPassword(entry.address)))}
	if len(attempt.failed) > 0 {
		f := attempt.failed[0]
		m = message{Text: locale.Say("Still not subscribed to %s: %s", f.URL, f.Why.Text), Problem: true}
	}
	s.redirectWith(w, r, run.path(), m)
	return nil
}

// chooseForm imports the bookmarks that a person has chosen. Others can be chosen later.
func (s *Server) chooseForm(w http.ResponseWriter, r *http.Request, run *importRun) error {
	places := map[int]bool{}
	for _, entry := range r.PostForm["entry"] {
		place, _ := strconv.Atoi(entry) // what is no number is no place
		places[place] = true
	}
	chosen := run.takeOffered(places)
	if len(chosen) == 0 {
		s.redirectWith(w, r, run.path(), message{Text: locale.Say("No bookmark is selected: check the boxes of some first"), Problem: true})
		return nil
	}
	err := s.importInBackground(w, r, chosen, nil)
	if err != nil {
		run.offer(chosen)
	}
	return err
}

// liveImport returns the progress of an import. At its end, the page is to be loaded again.
func (s *Server) liveImport(r *http.Request, id string) (v liveView, err error) {
	v.events = map[string]liveEvent{}
	run, err := s.imports.find(id)
	if err != nil || run.hasEnded() {
		v.add("reload", liveEvent{"reload", struct{}{}, "reload"})
		return v, nil
	}
	var b bytes.Buffer
	if err := s.pages.templates[s.language(r)].ExecuteTemplate(&b, "progress", run.view(1, "")); err != nil {
		return v, err
	}
	v.add("import", liveEvent{"part", liveRow{ID: "import", HTML: b.String()}, b.String()})
	return v, nil
}
