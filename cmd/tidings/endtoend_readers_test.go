package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mmcdole/gofeed"
	"github.com/rogpeppe/go-internal/txtar"
	xhtml "golang.org/x/net/html"

	"tidings/internal/check/checktest"
	"tidings/internal/daemon/origin"
	"tidings/internal/feed"
	"tidings/internal/longtest"
	"tidings/internal/script"
)

// readersFolder has the documents, the programs that print what a reader finds, and the list of what npm installs.
const readersFolder = "testdata/readers"

// A documentRead is what a reader finds in a document.
type documentRead struct {
	Title, Link, Fault string
	Items              []itemRead
}

// An itemRead is what a reader finds in an item.
type itemRead struct {
	Title, Link, Date, Content string
	Authors, Enclosures        []string
}

// fields returns what a reader shows, by name.
func (d *documentRead) fields() map[string]string {
	all := map[string]string{"title": d.Title, "link": d.Link, "fault": d.Fault, "items": fmt.Sprint(len(d.Items))}
	slices.SortStableFunc(d.Items, func(a, b itemRead) int { return cmp.Compare(a.Title, b.Title) })
	for i, it := range d.Items {
		for name, s := range map[string]string{
			"title": it.Title, "link": it.Link, "date": it.Date, "content": it.Content,
			"authors": strings.Join(it.Authors, "; "), "enclosures": strings.Join(it.Enclosures, "; "),
		} {
			all[fmt.Sprintf("item %d %s", i, name)] = s
		}
	}
	return all
}

// A feedReader is a program that reads feeds.
type feedReader struct {
	name   string
	json   bool // whether it reads JSON Feed
	merges bool // whether it merges equal items of several feeds
	read   func(t *testing.T, addresses []string) []documentRead
}

// An allowedDifference is a field that a reader may show otherwise through a node.
type allowedDifference struct{ reader, format, document, field, reason string }

var allowedDifferences = []allowedDifference{
	{"gofeed", "rss", "/atom/authors.xml", "item 1 authors", "gofeed reads only the first dc:creator"},
	{"gofeed", "rss", "/json/oneone.json", "item 0 authors", "gofeed reads only the first dc:creator"},
	{"gofeed", "atom", "/rss/odd.xml", "item 0 link", "gofeed does not take a permalink for the link, which it is"},
	{"gofeed", "json", "/rss/odd.xml", "item 0 link", "gofeed does not take a permalink for the link, which it is"},
	{"feedparser", "rss", "/atom/authors.xml", "item 0 link", "feedparser takes the id for the link if there is none, and ids have another form in Atom"},
	{"feedparser", "rss", "/atom/authors.xml", "item 1 link", "feedparser takes the id for the link if there is none, and ids have another form in Atom"},
	{"feedparser", "atom", "/rss/podcast.xml", "item 0 link", "feedparser takes the id for the link if there is none, and ids have another form in Atom"},
	{"feedparser", "atom", "/rss/media.xml", "item 0 content", "Atom has no media:content"},
	{"gofeed", "atom", "/rss/media.xml", "item 0 content", "gofeed does not read media:description, which the content is made of"},
	{"gofeed", "json", "/rss/media.xml", "item 0 content", "gofeed does not read media:description, which the content is made of"},
	{"feedparser", "atom", "/rss/media.xml", "item 1 content", "Atom has no media:content"},
}

// TestReadersThroughANode lets feed readers read documents at their origin, and the same documents through a node.
// They find the same. At the origin all addresses are absolute, because some readers resolve none; through the
// node most are relative.
func TestReadersThroughANode(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	o := newTestOrigin(t)
	documents := playDocuments(t, o)
	n := startNode(t, "--allow-private-origins", "--network", "readers")
	var names []string
	through := map[string]string{}
	for name := range documents {
		names = append(names, name)
		through[name] = n.subscribe(o.url + name)
	}
	slices.Sort(names)
	for name, address := range through {
		eventually(t, timeout, name, func() error {
			_, _, err := readFeed(address)
			return err
		})
	}
	for _, r := range feedReaders() {
		t.Run(r.name, func(t *testing.T) {
			compareReadings(t, r, "", names, o.url, through)
		})
	}
	// In another format than the source's, too.
	for _, c := range []struct {
		format string
		reader int
	}{{"rss", 0}, {"rss", 1}, {"atom", 0}, {"atom", 1}, {"json", 0}} {
		r := feedReaders()[c.reader]
		t.Run(r.name+" as "+c.format, func(t *testing.T) {
			converted := map[string]string{}
			for name := range documents {
				converted[name] = "http://" + n.http + "/feed?format=" + c.format + "&url=" + url.QueryEscape(o.url+name)
			}
			compareReadings(t, r, c.format, names, o.url, converted)
		})
	}
}

// compareReadings lets a reader read documents directly, and through a node at other addresses.
func compareReadings(t *testing.T, r feedReader, format string, names []string, site string, through map[string]string) {
	t.Helper()
	var read, plain, node []string
	for _, name := range names {
		if r.json || !strings.HasSuffix(name, ".json") {
			read, plain, node = append(read, name), append(plain, site+"/plain"+name), append(node, through[name])
		}
	}
	var direct, got []documentRead
	if r.merges {
		direct, got = r.read(t, plain), r.read(t, node)
	} else if all := r.read(t, slices.Concat(plain, node)); len(all) == 2*len(read) {
		direct, got = all[:len(read)], all[len(read):]
	}
	if len(direct) != len(read) || len(got) != len(read) {
		t.Fatalf("%d documents directly and %d through the node, of %d", len(direct), len(got), len(read))
	}
	seen := map[allowedDifference]bool{}
	for i, name := range read {
		want := direct[i].fields()
		if want["fault"] != "" || want["items"] == "0" {
			t.Errorf("%s cannot be read directly: %v", name, want)
		}
		for field, s := range got[i].fields() {
			// The readers that resolve a place in the document use the address of the document.
			w := strings.ReplaceAll(want[field], "/plain/", "/")
			if same := s == w || format != "" && isSameConverted(field, w, s, format, want["title"]); !same && !isAllowed(r.name, format, name, field, seen) {
				t.Errorf("%s: %s:\n  directly   %q\n  by a node  %q", name, field, w, s)
			}
		}
	}
	for _, a := range allowedDifferences {
		if a.reader == r.name && a.format == format && !seen[a] {
			t.Errorf("%s: %s is the same, so that the difference need not be allowed", a.document, a.field)
		}
	}
}

// isAllowed reports whether a field may differ, and notes it in seen.
func isAllowed(reader, format, document, field string, seen map[allowedDifference]bool) bool {
	i := slices.IndexFunc(allowedDifferences, func(a allowedDifference) bool {
		return a.reader == reader && a.format == format && a.document == document && a.field == field
	})
	if i >= 0 {
		seen[allowedDifferences[i]] = true
	}
	return i >= 0
}

// isSameConverted reports whether a field says the same in another format: the same title without markup, or the same
// text with the same addresses. An item without a date gets that of its arrival. Atom requires an
// author, and gets the title of the feed if there is none.
func isSameConverted(field, want, got, format, feedTitle string) bool {
	switch _, name, _ := strings.Cut(strings.TrimPrefix(field, "item "), " "); name {
	case "":
		return field == "title" && feed.PlainTitle(want) == feed.PlainTitle(got)
	case "title":
		return feed.PlainTitle(want) == got
	case "date":
		return want == ""
	case "authors":
		return want == "" && format == "atom" && got == feedTitle
	case "content":
		return essence(want) == essence(got)
	}
	return false
}

// essence returns the words of HTML and its addresses, without what a sanitiser removes. Of the address of a place it
// returns the name alone: readers disagree about the document in which the place is.
func essence(s string) string {
	var b strings.Builder
	isScript := false
	for z := xhtml.NewTokenizer(strings.NewReader(s)); z.Next() != xhtml.ErrorToken; {
		switch t := z.Token(); t.Type {
		case xhtml.TextToken:
			if !isScript {
				b.WriteString(t.Data + " ")
			}
		default:
			isScript = t.Data == "script" && t.Type == xhtml.StartTagToken
			for _, a := range t.Attr {
				if a.Key == "href" || a.Key == "src" {
					b.WriteString(a.Key + "=" + a.Val[max(0, strings.IndexByte(a.Val, '#')):] + " ")
				}
			}
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// playDocuments serves all documents below their names, and with absolute addresses below /plain. One is also served
// behind a redirect to another folder.
func playDocuments(t *testing.T, o *testOrigin) map[string]bool {
	t.Helper()
	all, err := os.ReadFile(filepath.Join(readersFolder, "documents.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	addresses := regexp.MustCompile(`⟦(.*?)\|(.*?)⟧`)
	play := func(path, text, kind string) {
		body := []byte(strings.ReplaceAll(text, "ORIGIN", o.url))
		o.Play(path, script.NewReplay([]script.Snapshot{{Body: body, ContentType: kind, Hold: time.Second}}))
	}
	documents := map[string]bool{}
	for _, part := range txtar.Parse(all).Files {
		name, text := "/"+part.Name, string(part.Data)
		kind := "application/xml"
		if strings.HasSuffix(name, ".json") {
			kind = "application/feed+json"
		}
		play(name, addresses.ReplaceAllString(text, "$1"), kind)
		play("/plain"+name, addresses.ReplaceAllString(text, "$2"), kind)
		documents[name] = true
	}
	// The items get guids of their own, because newsboat merges items across feeds.
	const old, moved = "/old/folder/feed.xml", "/rss/moved.xml"
	text := strings.NewReplacer("relative.xml", "moved.xml", `Link="false">`, `Link="false">moved-`).Replace(string(txtar.Parse(all).Files[0].Data))
	for folder, form := range map[string]string{"": "$1", "/plain": "$2"} {
		play(folder+moved, addresses.ReplaceAllString(text, form), "application/rss+xml")
		play(folder+old, "", "text/plain")
		o.Misbehave(folder+old, origin.Fault{Status: http.StatusFound, Header: http.Header{"Location": {folder + moved}}})
	}
	documents[old] = true
	return documents
}

func feedReaders() []feedReader {
	return []feedReader{
		{"gofeed", true, false, readByGofeed},
		{"feedparser", false, false, readByFeedparser},
		{"sfeed", false, false, readBySfeed},
		{"newsboat", false, true, readByNewsboat},
		{"rss-parser", false, false, func(t *testing.T, a []string) []documentRead { return readByNode(t, "rss-parser", a) }},
		{"Miniflux", true, false, readByMiniflux},
		{"feedsmith", true, false, func(t *testing.T, a []string) []documentRead { return readByNode(t, "feedsmith", a) }},
	}
}

func readByGofeed(_ *testing.T, addresses []string) []documentRead {
	var all []documentRead
	for _, a := range addresses {
		f, err := gofeed.NewParser().ParseURL(a)
		if err != nil {
			all = append(all, documentRead{Fault: err.Error()})
			continue
		}
		d := documentRead{Title: f.Title, Link: f.Link}
		for _, it := range f.Items {
			r := itemRead{Title: it.Title, Link: it.Link, Content: it.Description + "\n" + it.Content}
			if at := cmp.Or(it.PublishedParsed, it.UpdatedParsed); at != nil {
				r.Date = at.UTC().Format(time.RFC3339)
			}
			for _, p := range it.Authors {
				r.Authors = append(r.Authors, cmp.Or(p.Name, p.Email))
			}
			for _, e := range it.Enclosures {
				r.Enclosures = append(r.Enclosures, strings.Join([]string{e.URL, e.Type, e.Length}, " "))
			}
			d.Items = append(d.Items, r)
		}
		all = append(all, d)
	}
	return all
}

// readByProgram runs a program that prints what it finds at some addresses.
func readByProgram(t *testing.T, c *exec.Cmd) (all []documentRead) {
	t.Helper()
	var words bytes.Buffer
	c.Stderr = &words
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", c, err, &words)
	}
	if err := json.Unmarshal(out, &all); err != nil {
		t.Fatalf("%s: %v: %s", c, err, out)
	}
	return all
}

func readByFeedparser(t *testing.T, addresses []string) []documentRead {
	const python = "/usr/bin/python3"
	if exec.Command(python, "-c", "import feedparser").Run() != nil {
		checktest.Lacks(t, "python3-feedparser is not installed: it is a reader of this test")
	}
	return readByProgram(t, exec.Command(python, append([]string{filepath.Join(readersFolder, "read.py")}, addresses...)...))
}

func readByNode(t *testing.T, reader string, addresses []string) []documentRead {
	return readByProgram(t, exec.Command(nodeWith(t, reader), append([]string{filepath.Join(readersFolder, "read.mjs"), reader}, addresses...)...))
}

// installing is held while npm installs packages, which begins by removing all.
var installing sync.Mutex

// nodeWith returns the program node, which finds a package that npm has installed in readersFolder.
func nodeWith(t *testing.T, reader string) (node string) {
	t.Helper()
	node = checktest.Tool(t, "node", "it runs "+reader)
	npm := checktest.Tool(t, "npm", "it installs "+reader)
	installing.Lock()
	defer installing.Unlock()
	if _, err := os.Stat(filepath.Join(readersFolder, "node_modules", reader)); err != nil {
		out, err := exec.Command(npm, "ci", "--prefix", readersFolder, "--ignore-scripts", "--no-audit", "--no-fund").CombinedOutput()
		if err != nil {
			checktest.Lacks(t, "npm cannot install %s: %v: %s", reader, err, out)
		}
	}
	return node
}

// minifluxVersion is the version of Miniflux whose packages read the documents.
const minifluxVersion = "miniflux.app/v2@v2.3.5"

// readByMiniflux builds the part of Miniflux that reads feeds. It is internal to its module, so a copy of the module
// gets a command more. Miniflux itself would need a database.
func readByMiniflux(t *testing.T, addresses []string) []documentRead {
	if os.Getenv("CI") != "true" && !longtest.Long() {
		t.Skip("building Miniflux takes its time: left out of the fast tier except in CI")
	}
	goTool := checktest.Tool(t, "go", "it builds Miniflux")
	out, err := exec.Command(goTool, "mod", "download", "-json", minifluxVersion).Output()
	var module struct{ Dir, Error string }
	if unread := json.Unmarshal(out, &module); err != nil || unread != nil {
		t.Fatalf("go cannot download %s: %v, %v: %s", minifluxVersion, err, unread, module.Error)
	}
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS(module.Dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(folder, "read"), os.DirFS(filepath.Join(readersFolder, "miniflux"))); err != nil {
		t.Fatal(err)
	}
	build := exec.Command(goTool, "build", "-buildvcs=false", "-o", "reader", "./read")
	build.Dir = folder
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go cannot build %s: %v: %s", minifluxVersion, err, out)
	}
	return readByProgram(t, exec.Command(filepath.Join(folder, "reader"), addresses...))
}

// readBySfeed gives documents to sfeed, with their addresses, as sfeed_update does. sfeed finds neither the title nor
// the link of a feed.
func readBySfeed(t *testing.T, addresses []string) []documentRead {
	sfeed := checktest.Tool(t, "sfeed", "it is a reader of this test")
	var all []documentRead
	for _, a := range addresses {
		body, err := readBytes(a)
		if err != nil {
			t.Fatal(err)
		}
		c := exec.Command(sfeed, a)
		c.Stdin = bytes.NewReader(body)
		out, err := c.Output()
		if err != nil {
			t.Fatal(err)
		}
		var d documentRead
		for line := range strings.Lines(string(out)) {
			f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
			if len(f) < 9 {
				t.Fatalf("%s: sfeed printed %q", a, line)
			}
			d.Items = append(d.Items, itemRead{
				Date: f[0], Title: f[1], Link: f[2], Content: f[4] + " " + f[3], Authors: f[6:7], Enclosures: f[7:8],
			})
		}
		all = append(all, d)
	}
	return all
}

// readByNewsboat lets newsboat read all documents at once, and reads its cache.
func readByNewsboat(t *testing.T, addresses []string) []documentRead {
	b := &newsboatHome{
		newsboat: checktest.Tool(t, "newsboat", "it is a reader of this test"),
		sqlite:   checktest.Tool(t, "sqlite3", "it reads newsboat's cache"),
		dir:      t.TempDir(), address: map[string]string{},
	}
	for _, a := range addresses {
		b.address[a] = a
	}
	b.configure(t)
	if err := b.reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The titles stand in for an order; a feed without items has none.
	c := exec.Command(b.sqlite, "-json", "cache.db", "select rssurl, f.title feed, f.url site, i.title, i.url, author, pubDate, content, enclosure_url, enclosure_type "+
		"from rss_feed f join rss_item i on i.feedurl = f.rssurl")
	c.Dir = b.dir
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		RSSURL, Feed, Site, Title, URL, Author, Content string
		PubDate                                         int64
		EnclosureURL                                    string `json:"enclosure_url"`
		EnclosureType                                   string `json:"enclosure_type"`
	}
	if err := json.Unmarshal(out, &rows); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	all := make([]documentRead, len(addresses))
	for _, r := range rows {
		d := &all[slices.Index(addresses, r.RSSURL)]
		d.Title, d.Link = r.Feed, r.Site
		date := fmt.Sprint(r.PubDate)
		if time.Since(time.Unix(r.PubDate, 0)) < time.Hour {
			date = "" // newsboat takes the present for an unknown date
		}
		d.Items = append(d.Items, itemRead{
			Title: r.Title, Link: r.URL, Date: date, Content: r.Content, Authors: []string{r.Author},
			Enclosures: []string{r.EnclosureURL + " " + r.EnclosureType},
		})
	}
	return all
}
