package feed

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// JSON Feed 1.1, as far as this package writes it.
type (
	jsonHead struct {
		Version     string     `json:"version"`
		Title       string     `json:"title"`
		HomePage    string     `json:"home_page_url,omitempty"`
		Description string     `json:"description,omitempty"`
		Language    string     `json:"language,omitempty"`
		Items       []struct{} `json:"items"`
	}
	jsonItem struct {
		ID          string           `json:"id"`
		URL         string           `json:"url,omitempty"`
		Title       string           `json:"title,omitempty"`
		Summary     string           `json:"summary,omitempty"`
		HTML        string           `json:"content_html"`
		Published   string           `json:"date_published,omitempty"`
		Modified    string           `json:"date_modified,omitempty"`
		Authors     []jsonAuthor     `json:"authors,omitempty"`
		Tags        []string         `json:"tags,omitempty"`
		Attachments []jsonAttachment `json:"attachments,omitempty"`
		Source      *jsonSource      `json:"_tidings_source,omitempty"`
	}
	jsonSource struct {
		URL      string `json:"feed_url"`
		Title    string `json:"title,omitempty"`
		HomePage string `json:"home_page_url,omitempty"`
	}
	jsonAuthor struct {
		Name string `json:"name"`
	}
	jsonAttachment struct {
		URL  string `json:"url"`
		Type string `json:"mime_type"`
		Size int64  `json:"size_in_bytes,omitempty"`
	}
	jsonProvenance struct {
		Provenance string `json:"provenance"`
	}
)

// marshal encodes values that can always be encoded.
func marshal(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("feed: " + err.Error())
	}
	return bytes.TrimSpace(b.Bytes())
}

func (d *Document) writeJSON(head *Head) []byte {
	raw, at := head.Raw, head.ItemsAt
	if d.URL != "" {
		raw = d.headJSON(raw)
		members(raw, func(m member) {
			if m.name == "items" {
				at = m.value + 1
			}
		})
	}
	out := append([]byte(nil), raw[:at]...)
	for i := range d.Entries {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, '\n')
		out = d.appendJSON(out, &d.Entries[i])
	}
	out = append(out, raw[at:]...)
	return append(absoluteJSON(out, d.Base), '\n')
}

// headJSON replaces the address and the publisher in a head.
func (d *Document) headJSON(raw []byte) []byte {
	out := append([]byte(`{"feed_url":`), marshal(d.URL)...)
	if d.Hub != "" {
		out = append(append(out, ",\n"...), `"hubs":[{"type":"WebSub","url":`+string(marshal(d.Hub))+`}]`...)
	}
	if d.Publisher != nil {
		out = append(append(out, ",\n"...), d.Publisher.Metadata(JSON)...)
	}
	members(raw, func(m member) {
		if m.name != "feed_url" && m.name != "hubs" && m.name != publisherMember && !hasUnsafeLink(m.name, raw[m.value:m.end]) {
			out = append(append(out, ",\n"...), raw[m.start:m.end]...)
		}
	})
	return append(out, '}')
}

func (d *Document) appendJSON(out []byte, e *Entry) []byte {
	raw := e.Item.Raw
	if e.Item.Format != JSON {
		raw = d.itemJSON(e)
	}
	return e.appendMarked(out, raw)
}

// ItemJSON returns an entry as an item of JSON Feed, whatever the format of its document.
func (d *Document) ItemJSON(e *Entry) []byte { return e.appendMarked(nil, d.itemJSON(e)) }

// appendMarked appends a JSON item with what the document says about the entry.
func (e *Entry) appendMarked(out, raw []byte) []byte {
	raw = withoutProvenance(raw)
	said := e.said()
	if said == "" {
		return append(out, raw...)
	}
	out = append(out, `{"`+provenanceMember+`":`...)
	out = append(out, marshal(jsonProvenance{said})...)
	if inner := bytes.TrimSpace(raw[1:]); inner[0] != '}' {
		out = append(out, ',')
	}
	return append(out, raw[1:]...)
}

// withoutProvenance returns an item without the provenance of its source. A reader of two such members would
// believe the last one.
func withoutProvenance(raw []byte) []byte {
	has := false
	out := selectMembers(raw, func(m member) bool {
		is := strings.EqualFold(m.name, provenanceMember)
		has = has || is
		return !is
	})
	if !has {
		return raw
	}
	return out
}

func (d *Document) itemJSON(e *Entry) []byte {
	m := d.sanitised(e)
	it := jsonItem{
		ID: e.id(&m), URL: m.Link, Title: m.Title, Tags: m.Categories,
		HTML: cmp.Or(m.Content, m.Summary), Modified: e.date(&m).Format(time.RFC3339),
	}
	if writable(m.Published) {
		it.Published = m.Published.UTC().Format(time.RFC3339)
	}
	for _, name := range m.Authors {
		it.Authors = append(it.Authors, jsonAuthor{name})
	}
	if m.Content != "" {
		it.Summary = strings.TrimSpace(string(AppendText(nil, m.Summary)))
	}
	for _, a := range m.Enclosures {
		size, _ := strconv.ParseInt(a.Length, 10, 64) // 0: unknown
		it.Attachments = append(it.Attachments, jsonAttachment{a.URL, a.mediaType(), size})
	}
	if s := e.Source; s != nil {
		it.Source = &jsonSource{s.URL, s.Title, safeLink(s.Link)}
	}
	return marshal(it)
}
