package feed

import (
	"slices"
	"strings"
)

// An allowedDifference is a reason why this package is right although feedparser finds something else. It is about the
// fields and the documents whose names end as its own do, about all documents if it has none, and there about the
// disagreements that it applies to.
type allowedDifference struct {
	reason, field string
	documents     []string
	applies       func(d *disagreement) bool
}

// explains reports whether a disagreement has this reason, and returns which of the reason's keys this uses.
func (a *allowedDifference) explains(d *disagreement) (key string, ok bool) {
	if !strings.HasSuffix(d.field, a.field) || a.applies != nil && !a.applies(d) {
		return "", false
	}
	if a.documents == nil {
		return a.reason, true
	}
	i := slices.IndexFunc(a.documents, func(name string) bool { return strings.HasSuffix(d.document, name) })
	if i < 0 {
		return "", false
	}
	return a.reason + ": " + a.documents[i], true
}

// keys returns what must be used: the reason with each of its documents.
func (a *allowedDifference) keys() []string {
	if a.documents == nil {
		return []string{a.reason}
	}
	var keys []string
	for _, name := range a.documents {
		keys = append(keys, a.reason+": "+name)
	}
	return keys
}

var allowedDifferences = []allowedDifference{
	// Documents.
	{"feedparser itself fails", "fault", nil, nil},
	{
		"none of the items says anything, so that the earlier items stay", "refused", nil,
		func(d *disagreement) bool { return strings.Contains(d.ours, "says anything") && d.found.saysNothing() },
	},
	{
		"the only item has a picture without an address", "refused",
		[]string{"/encoding_attribute_crash.xml", "/euc-kr-attribute.xml", "/http_encoding_attribute_crash.xml"}, nil,
	},
	{
		"it is no feed, and feedparser finds no item in it", "refused", nil,
		func(d *disagreement) bool {
			return strings.Contains(d.ours, ErrNotFeed.Error()) && len(d.found.Items) == 0
		},
	},
	{
		"it is CDF or RSS 1.1, which died long ago: feedparser cannot name them, and few readers behind a node can read them", "refused", nil,
		func(d *disagreement) bool {
			return !d.found.IsKnown && strings.Contains(strings.ToLower(d.ours), "a document of <channel>")
		},
	},
	{
		"it is a single entry, as programs send it to a publisher, and no feed (RFC 4287, 2)", "refused", nil,
		func(d *disagreement) bool { return strings.Contains(d.ours, "a document of <entry>") },
	},
	{
		"nobody says the charset, and feedparser shows nonsense", "refused", nil,
		func(d *disagreement) bool { return strings.Contains(d.ours, "its charset cannot be told") },
	},
	{"the namespace is not that of Atom", "refused", []string{"/wrong-namespace.xml"}, nil},
	{"the channel does not end, so that items may be missing", "refused", []string{"/invalid_xml.xml"}, nil},

	// Items.
	{
		"an item that says the same as an earlier one is left out", "items",
		[]string{
			"/entry_link_no_href_link_priority.xml", "/entry_link_rel_enclosure_no_href.xml", "/entry_content_xml_lang_blank_3.xml",
			"/atom10_id.xml", "/atom10_title.xml", "/sync-id-duplicated.xml",
		}, nil,
	},
	{"Atom has entries, and no items", "items", []string{"/http_entry_contributor_url_base_content_location.xml", "/unknown-namespace.xml"}, nil},
	{"what is within an item is a part of it", "items", []string{"/missing-self.xml", "/spec-example-rss-2.xml"}, nil},

	// Links.
	{
		"an id is no link (RFC 4287, 4.2.6), and a guid is one only if it is an address", "link", nil,
		func(d *disagreement) bool { return d.theirs == d.id && len(d.pages) == 0 },
	},
	{
		"the name that RDF gives to an item is its page", "link", nil,
		func(d *disagreement) bool { return d.ours == d.id && d.theirs == "" },
	},
	{
		"of several pages the first one in HTML counts, or else the first one", "link", nil,
		func(d *disagreement) bool { return slices.Contains(d.pages, d.ours) },
	},
	{"the text of a link counts before an attribute that RSS does not have", "link", []string{"/rss_channel_item_uri_at_protocol.xml"}, nil},
	{"an empty address is that of the feed, and no page", "link", []string{"/empty-path.xml"}, nil},
	{"a page is on the Web", "link", []string{"/feed_link_ftp.xml", "/feed_link_mailto.xml", "/link_ftp.xml"}, nil},

	// Titles and texts.
	{
		"an empty or distant content does not hide the summary", "text", nil,
		func(d *disagreement) bool { return d.theirs == "" && d.ours == d.summary },
	},
	{
		"a content of no kind of text does not hide the summary", "text",
		[]string{"/type-multipart-alternative.xml", "/content-jpeg-invalid-base64.xml", "/content-jpeg-valid-base64.xml", "/content-src-extra-child.xml"},
		func(d *disagreement) bool { return d.ours == d.summary },
	},
	{"a content of no kind of text shows nothing", "text", []string{"/issue_275_extensions_and_source.xml"}, func(d *disagreement) bool { return d.ours == "" }},
	{
		"XHTML that is escaped, against RFC 4287, 3.1.1.3, is read as HTML, so that no tags show", "",
		[]string{
			"/entry_content_not_inline.xml", "/entry_content_not_inline_cdata.xml", "/entry_summary_not_inline_cdata.xml",
			"/entry_title_not_inline_cdata.xml", "/feed_title_not_inline.xml",
		},
		func(d *disagreement) bool { return d.ours == visibleWords(d.theirs) },
	},
	{
		"of several elements the first one of the item's own format counts", "text",
		[]string{
			"/item_description_and_summary.xml", "/item_summary_and_description.xml", "/multiple-summaries.xml", "/duplicate_description.xml",
			"/valid_dc_all.xml", "/valid_dc_all2.xml",
		}, nil,
	},
	{"of several elements the first one of the feed's own format counts", "feed title", []string{"/valid_dc_all.xml"}, nil},
	{
		"feedparser does not read an element of podcasts, one without its namespace, or text within other elements", "text",
		[]string{
			"/itunes_item_subtitle.xml", "/issue_303_encoded_no_namespace.xml", "/rss10_mixedContent.xml", "/content-svg.xml",
			"/issue_275_extensions_and_source.xml",
		},
		func(d *disagreement) bool { return d.theirs == "" },
	},
	{
		"feedparser does not read a title with a wrong end tag", "title",
		[]string{"/atom10_feed_title_xhtml_escaped_markup.xml", "/atom10_feed_title_xhtml_inline_markup.xml"},
		func(d *disagreement) bool { return d.theirs == "" },
	},
	{
		"the title of a part is not that of the whole", "title",
		[]string{"/item_category_image.xml", "/issue_217_enclosure_children.xml", "/missing-self.xml", "/rss10_rdfDescription.xml"}, nil,
	},
	{"media:description is plain text unless it says otherwise", "text", []string{"/invalid_description_plain.xml"}, nil},
	{"a browser, too, shows what was converted twice", "text", []string{"/double-encoded-html.xml", "/bozo_double-encoded-html.xml"}, nil},
	{"nobody says the charset, and both show nonsense", "", []string{"/shiftjis.xml"}, nil},
	{"XML does not allow the character", "title", []string{"/amp-pound-digit.xml", "/rss_channel_item_illegal_char.xml"}, nil},
	{"HTML 5 gives the entity another character than HTML 4", "title", []string{"entities/lang.xml"}, nil},

	// Dates, authors, enclosures.
	{
		"there is no such day or time", "date",
		[]string{"/published_bad_day2.xml", "/published_bad_hours.xml", "/published_bad_minutes.xml", "/published_bad_month.xml"}, nil,
	},
	{"of several dates the first one counts", "date", []string{"/multiple-updated.xml"}, nil},
	{
		"feedparser does not read dates with comments, nor dcterms:created", "date",
		[]string{"/data-types-datetime/everything.xml", "/item_dcterms_created.xml", "/item_dcterms_created_parsed.xml"},
		func(d *disagreement) bool { return d.theirs == "" },
	},
	{"an address is not part of a name", "authors", []string{"/jumbled2.xml"}, nil},
	{"an author is named once", "authors", []string{"/multiple_item_author.xml"}, nil},
	{"every address is absolute", "enclosures", []string{"/invalid_item_enclosure_invalid_url.xml"}, nil},
}
