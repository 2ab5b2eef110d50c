package feed

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ReadHead reads a head from an untrusted source, as ReadItem does.
func ReadHead(format Format, raw []byte) (Head, error) {
	h, err := readHead(format, raw)
	if err != nil {
		return Head{}, fmt.Errorf("read head: %w", err)
	}
	return h, nil
}

func readHead(format Format, raw []byte) (Head, error) {
	if len(raw) > MaxHead {
		return Head{}, fmt.Errorf("%w: %d bytes", ErrLimit, len(raw))
	}
	if err := checkCharacters(raw); err != nil {
		return Head{}, err
	}
	if format == JSON {
		if err := checkJSON(raw); err != nil {
			return Head{}, err
		}
		return readHeadJSON(raw)
	}
	err := checkElement(raw, nil, func(local []byte, uri string) error {
		if f, err := formatOfRoot(local, uri); err != nil || f != format {
			return fmt.Errorf("%w: <%s>", ErrBroken, clipBytes(local))
		}
		return nil
	})
	if err != nil {
		return Head{}, err
	}
	return readHeadXML(format, raw)
}

// readHeadXML reads a tidy document without items.
func readHeadXML(format Format, raw []byte) (Head, error) {
	h := Head{Format: format, Raw: raw}
	outer := 1 // depth of the element that contains the items
	for w := walk(raw, nil); w.step(); {
		switch {
		case w.starts() && outer == 1 && format != Atom && w.depth() == 2 && w.container():
			outer = 2
		case w.ends() && h.ItemsAt == 0 && (w.depth() == 1 || format == RSS && w.depth() == outer):
			if w.latest.empty {
				return h, fmt.Errorf("%w: no place for items", ErrBroken)
			}
			h.ItemsAt, h.scope = w.latest.start, slices.Clone(w.scope)
		}
	}
	w := headWalk(format, raw)
	for w.wantsTitle = true; w.next(); w.wantsTitle = h.Title == "" {
		switch strings.ToLower(w.name) {
		case "title":
			w.setFirst(&h.Title)
		case "description", "subtitle", "tagline":
			w.setFirst(&h.Description)
		case "link":
			if h.Link == "" && (w.rel == "" || w.rel == "alternate") {
				h.Link = w.address()
			}
		case "language":
			w.setFirst(&h.Language)
		}
	}
	h.Link = safeLink(h.Link)
	if h.Language == "" {
		h.Language = h.scope.value("xml:lang")
	}
	return h, nil
}

// A headWalker visits the children of a head, one at a time. The content of a link is its address as written.
type headWalker struct {
	*walker
	format  Format
	name    string // local name of the child, with "sy:" before it for that namespace; "" if unknown
	rel     string
	content string
	parts   []string // texts of the child's own children
	outer   int

	wantsTitle bool // a title is read as that of an item, to plain text
}

func headWalk(format Format, raw []byte) *headWalker {
	return &headWalker{walker: walk(raw, nil), format: format, outer: 1}
}

func (w *headWalker) next() bool {
	var text, part strings.Builder
	for w.step() {
		switch {
		case w.starts() && w.outer == 1 && w.format != Atom && w.depth() == 2 && w.container():
			w.outer = 2
		case w.ends() && w.depth() == w.outer && w.outer == 2:
			w.outer = 3 // the channel ended; a second channel, or an RSS 1.0 image, is ignored
		case w.starts() && w.depth() == w.outer+1:
			w.startChild()
			if w.wantsTitle && strings.EqualFold(w.name, "title") {
				r := meaningReader{walker: w.walker, format: w.format}
				w.content = r.textConstruct(ownRank).plain()
				return true
			}
			text.Reset()
		case w.ends() && w.depth() == w.outer+1:
			if w.content == "" {
				w.content = strings.Join(strings.Fields(text.String()), " ")
			}
			return true
		case w.starts():
			part.Reset()
		case w.ends() && w.depth() == w.outer+2 && len(w.parts) < 32:
			w.parts = append(w.parts, strings.TrimSpace(part.String()))
		case !w.starts() && !w.ends() && w.depth() > w.outer && w.name != "" && text.Len() < maxField:
			text.WriteString(w.text())
			part.WriteString(w.text())
		}
	}
	return false
}

func (w *headWalker) startChild() {
	w.name, w.rel, w.content, w.parts = "", "", "", nil
	switch own := w.open[0].uri; {
	case w.uri == nsSy:
		w.name = "sy:" + string(w.local)
	case w.uri == "" || w.uri == own || isAtom(w.uri) || w.uri == w.open[w.depth()-2].uri,
		w.uri == nsDC && isOneOf(w.local, "language", "title", "creator", "rights"), isPodcast(w.uri) && isOneOf(w.local, "image", "author"):
		w.name = string(w.local)
	}
	if href, ok := w.attr("href"); ok && (w.name == "link" || w.name == "image") {
		w.rel, w.content = w.value("rel"), unescape(href)
	}
}

// address returns the address in a link, as far as the document says where it is.
func (w *headWalker) address() string {
	if w.content == "" {
		return ""
	}
	return clipString(resolve(w.scope.base(), w.content))
}

func isOneOf(name []byte, names ...string) bool { return slices.Contains(names, string(name)) }

// setFirst sets a field that is not set yet.
func (w *headWalker) setFirst(s *string) {
	if *s == "" {
		*s = clipString(w.content)
	}
}

func clipString(s string) string {
	if len(s) > maxField {
		s = s[:maxField]
	}
	return strings.ToValidUTF8(s, "")
}

// readHeadJSON reads a JSON Feed without items.
func readHeadJSON(raw []byte) (Head, error) {
	h := Head{Format: JSON, Raw: raw}
	if raw[0] != '{' || raw[len(raw)-1] != '}' {
		return h, fmt.Errorf("%w: no object", ErrBroken)
	}
	members(raw, func(m member) {
		if m.name == "items" {
			h.ItemsAt = 0
			if string(raw[m.value:m.end]) == "[]" {
				h.ItemsAt = m.value + 1
			}
		}
	})
	if h.ItemsAt == 0 {
		return h, fmt.Errorf("%w: no place for items", ErrBroken)
	}
	get := membersOf(raw)
	for name, p := range map[string]*string{
		"title": &h.Title, "home_page_url": &h.Link, "description": &h.Description, "language": &h.Language,
	} {
		*p = clipString(stringOf(get[name]))
	}
	if h.Title == "" && !strings.Contains(stringOf(get["version"]), "jsonfeed.org/version") {
		return h, errNoJSONFeed
	}
	h.Link = safeLink(h.Link)
	return h, nil
}

// Self returns the address that a document gives for itself, or "".
func (h *Head) Self() string {
	_, links := h.hints()
	return links.Self
}

// hints reads the polling hints and the links of a head.
func (h *Head) hints() (hints Hints, links Links) {
	if h.Format == JSON {
		get := membersOf(h.Raw)
		links.Self = stringOf(get["feed_url"])
		for _, hub := range objectsOf(get["hubs"]) {
			links.Hubs = append(links.Hubs, stringOf(hub["url"]))
		}
		return hints, links
	}
	period, frequency := time.Duration(0), 1
	for w := headWalk(h.Format, h.Raw); w.next(); {
		switch w.name {
		case "ttl":
			hints.TTL = time.Duration(number(w.content)) * time.Minute
		case "sy:updatePeriod":
			period = periods[strings.ToLower(w.content)]
		case "sy:updateFrequency":
			frequency = max(1, number(w.content))
		case "sy:updateBase":
			hints.Base, _ = time.Parse(time.RFC3339, w.content)
		case "skipHours":
			for _, hour := range w.parts {
				if n, err := strconv.Atoi(hour); err == nil && n >= 0 && n <= 24 {
					hints.SkipHours |= 1 << (n % 24)
				}
			}
		case "skipDays":
			for day := time.Sunday; day <= time.Saturday; day++ {
				if slices.Contains(w.parts, day.String()) {
					hints.SkipDays |= 1 << day
				}
			}
		case "link":
			switch {
			case w.rel == "self" && links.Self == "":
				links.Self = w.address()
			case w.rel == "hub" && len(links.Hubs) < maxObjects:
				links.Hubs = append(links.Hubs, w.address())
			}
		}
	}
	hints.Period = period / time.Duration(frequency)
	return hints, links
}

var periods = map[string]time.Duration{
	"hourly": time.Hour, "daily": 24 * time.Hour, "weekly": 7 * 24 * time.Hour,
	"monthly": 30 * 24 * time.Hour, "yearly": 365 * 24 * time.Hour,
}

// number reads a count. It returns 0 for an invalid or absurd one.
func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > 1e6 {
		return 0
	}
	return n
}

// volatile are the parts of a head that change without any news.
var volatile = map[string]bool{
	"lastBuildDate": true, "pubDate": true, "updated": true, "modified": true, "date": true,
	"ttl": true, "generator": true, "skipHours": true, "skipDays": true, "cloud": true,
	"updatePeriod": true, "updateFrequency": true, "updateBase": true, "generatorAgent": true,
	"items": true, "feed_url": true, "hubs": true, "next_url": true,
}

// Hash returns a hash of the head without its volatile parts.
func (h *Head) Hash() Hash {
	const version = "tidings/head-hash/1"
	if h.Format == JSON {
		get := membersOf(h.Raw)
		var parts [][]byte
		for _, name := range slices.Sorted(maps.Keys(get)) {
			if !volatile[name] {
				parts = append(parts, []byte(name), get[name])
			}
		}
		return digest(version, parts...)
	}
	var (
		d    = sha256.New()
		skip = 0 // depth of the open volatile element
		text []byte
	)
	d.Write([]byte(version))
	for w := walk(h.Raw, nil); w.step(); {
		switch {
		case skip != 0:
			if w.ends() && w.depth() == skip {
				skip = 0
			}
		case w.starts() && w.depth() > 1 && (volatile[string(w.local)] || string(w.local) == "link" && isSelfOrHub(w.value("rel"))):
			skip = w.depth()
		case w.starts():
			sum := digest("element", append([][]byte{text, []byte(w.uri), w.local}, w.sortedAttrs()...)...)
			d.Write(sum[:])
			text = text[:0]
		case w.ends():
			sum := digest("end", text)
			d.Write(sum[:])
			text = text[:0]
		default:
			text = appendNonSpace(text, w.text())
		}
	}
	return Hash(d.Sum(nil))
}

// Shown returns a hash of what readers show of a head: its title, site, description, language, pictures, people and
// rights. Nodes compare it, so a change of a rule must change the version. Numbers do not count in texts other than the
// title, because descriptions count readers and rights name the year.
func (h *Head) Shown() Hash {
	text := func(s string) []byte { return withoutNumbers(appendVisible(nil, s)) }
	parts := [][]byte{appendVisible(nil, h.Title), []byte(cleanLink(h.Link)), text(h.Description), []byte(h.Language)}
	add := func(texts ...string) {
		for _, s := range texts {
			if isAddress(s) {
				parts = append(parts, appendAddress(nil, "href", s))
			} else {
				parts = append(parts, text(s))
			}
		}
	}
	if h.Format == JSON {
		get := membersOf(h.Raw)
		add(append(authorsOf(get), stringOf(get["icon"]), stringOf(get["favicon"]))...)
	} else {
		for w := headWalk(h.Format, h.Raw); w.next(); {
			switch w.name {
			case "image", "logo", "icon", "author", "managingEditor", "creator", "copyright", "rights":
				if len(w.parts) == 0 {
					w.parts = []string{w.content}
				}
				add(w.parts...)
			}
		}
	}
	return digest("tidings/head-shown/1", parts...)
}

// isSelfOrHub reports whether a link says where a document is found, and not what it is.
func isSelfOrHub(rel string) bool { return rel == "self" || rel == "hub" }

// sortedAttrs returns the names and values of the last start tag, independent of their order and prefixes.
func (w *walker) sortedAttrs() [][]byte {
	var list [][]byte
	for _, a := range w.attrs {
		if _, ok := boundPrefix(a.name); ok {
			continue
		}
		name := string(a.name)
		if prefix, local, _ := split(a.name); prefix != nil {
			name = w.scope.uri(prefix) + " " + string(local)
		}
		list = append(list, []byte(name+"\x00"+unescape(a.value)))
	}
	slices.SortFunc(list, bytes.Compare)
	return list
}
