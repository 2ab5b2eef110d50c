package news

import (
	"bytes"
	"encoding/json"
	"time"

	"tidings/internal/feed"
)

// An Event says that a source has a new or edited item, or that its health has changed.
type Event struct {
	Number uint64    `json:"number"` // greater than that of all earlier events; there may be gaps
	Time   time.Time `json:"time"`
	URL    string    `json:"url,omitempty"`   // of the feed or page
	Query  string    `json:"query,omitempty"` // of the search
	Title  string    `json:"title,omitempty"` // of the feed
	Edited bool      `json:"edited,omitempty"`
	// DelayS is how long after its date a new item was seen here, in seconds; nil if it has no date, or an old one.
	DelayS *float64 `json:"delay_s,omitempty"`
	// FoundHere says of a new item of a feed that this node read it at the origin before others told of it.
	FoundHere bool          `json:"found_here,omitempty"`
	Key       string        `json:"key,omitempty"`    // identifies the item among those of the feed or search
	Health    *HealthChange `json:"health,omitempty"` // in place of an item

	stored []byte
	kept   *keptItem
	said   *EventJSON // nil: the item is kept, and nobody has asked for it
}

// An EventJSON is all of an event, in the form of the HTTP API.
type EventJSON struct {
	Event
	// Item is an item of JSON Feed 1.1. If Shortened is true, it lacks its content, which is too large.
	Item      json.RawMessage `json:"item,omitempty"`
	Shortened bool            `json:"shortened,omitempty"`

	json []byte // in one line
}

// A keptItem is an item of a feed as its document at the feed's address has it. It becomes one of JSON Feed when somebody asks for it,
// which takes longer than everything else that the journal does with an item, and most events are never read.
type keptItem struct {
	Format     feed.Format    `json:"format"`
	Qualifiers uint8          `json:"qualifiers,omitempty"`
	Scope      []feed.Binding `json:"scope,omitempty"`
	Arrived    time.Time      `json:"arrived"`
	Provenance string         `json:"provenance,omitempty"`

	raw      []byte
	sanitise func(*feed.Meaning)
}

// NewEvent returns an event with an item of JSON Feed.
func NewEvent(e Event, item json.RawMessage) Event {
	return said(e, item, false)
}

func said(e Event, item json.RawMessage, shortened bool) Event {
	s := &EventJSON{Event: e, Item: item, Shortened: shortened}
	s.json = marshal(s)
	e.said = s
	return e
}

// Item returns the event's item in JSON Feed 1.1; nil if it has none.
func (e *Event) Item() json.RawMessage { return e.read().Item }

// Shortened says that the item lacks its content, which is too large.
func (e *Event) Shortened() bool { return e.read().Shortened }

// JSON returns the event in one line, as the HTTP API has it.
func (e *Event) JSON() []byte { return e.read().json }

// Stored returns the bytes that the journal has of the event. They stay the same, whereas another version of the program may say the
// event in another way.
func (e *Event) Stored() []byte {
	if e.stored == nil {
		return e.JSON()
	}
	return e.stored
}

func (e *Event) read() *EventJSON {
	switch k := e.kept; {
	case e.said != nil:
	case k == nil:
		*e = said(*e, nil, false)
	default:
		it, err := feed.ReadItem(k.Format, k.raw, k.Scope, k.Qualifiers)
		if err != nil { // it was stored by another version
			*e = said(*e, nameOnly(e), true)
			break
		}
		entry := &feed.Entry{Item: it, Arrived: k.Arrived, Provenance: k.Provenance}
		base, _ := feed.DocumentURL(e.URL)
		*e = render(*e, entry, &feed.Document{Base: base, Sanitise: k.sanitise})
	}
	return e.said
}

// render adds the item of an entry to an event, without its content if it is too large.
func render(e Event, entry *feed.Entry, d *feed.Document) Event {
	if entry.Meaning == nil {
		m, _ := entry.Item.Meaning(d.Base) // as far as it can be parsed
		whole := *entry
		entry, whole.Meaning = &whole, &m
	}
	full := said(e, d.ItemJSON(entry), false)
	if len(full.JSON()) <= maxEventBytes {
		return full
	}
	short, m := *entry, *entry.Meaning // whose lists ItemJSON may have changed
	m.Content, m.Summary, m.Enclosures, m.Categories = "", "", nil, nil
	short.Meaning, short.Source = &m, nil
	if full = said(e, d.ItemJSON(&short), true); len(full.JSON()) <= maxEventBytes {
		return full
	}
	return said(e, nameOnly(&e), true) // an enormous title or address
}

// nameOnly returns an item that says nothing but which one it is.
func nameOnly(e *Event) json.RawMessage { return marshal(map[string]string{"id": e.Key}) }

// A storedEvent is an event in the store: one line, and the item after it if it is kept as its document has it.
type storedEvent struct {
	EventJSON
	Kept *keptItem `json:"kept,omitempty"`
}

// encode returns the event of an entry as it is stored. base is the address of the document, which may be secret if it is not that of
// the feed. Such an item is rendered at once.
func (j *Journal) encode(e Event, entry *feed.Entry, base string) []byte {
	it := &entry.Item
	public, _ := feed.DocumentURL(e.URL)
	if entry.Meaning == nil && base == public && len(it.Raw) < maxEventBytes {
		kept := &keptItem{Format: it.Format, Qualifiers: it.Qualifiers, Scope: it.Scope, Arrived: entry.Arrived, Provenance: entry.Provenance}
		if line := marshal(storedEvent{EventJSON{Event: e}, kept}); len(line)+1+len(it.Raw) <= maxEventBytes {
			return append(append(line, '\n'), it.Raw...)
		}
	}
	full := render(e, entry, &feed.Document{Base: base, Sanitise: j.sanitise})
	return full.JSON()
}

// decode returns an event from the store.
func (j *Journal) decode(value []byte) (Event, error) {
	line, raw, _ := bytes.Cut(value, []byte("\n"))
	var s storedEvent
	if err := json.Unmarshal(line, &s); err != nil {
		return Event{}, err
	}
	e := s.Event
	e.stored = value
	if e.kept = s.Kept; e.kept != nil {
		e.kept.raw, e.kept.sanitise = raw, j.sanitise
		return e, nil
	}
	whole := s.EventJSON
	whole.json = line
	e.said = &whole
	return e, nil
}
