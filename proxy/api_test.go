package proxy

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/internal/feed"
	"tidings/internal/locale"
)

// call sends a request to the API, and decodes its answer into v. Both must be as openapi.json says.
func (b *testServer) call(method, name, text string, v any) int {
	b.Helper()
	r := b.send(request(method, apiPath+name, strings.NewReader(text), "Tidings", "1", "Content-Type", "application/json"))
	out := body(b, r)
	if kind := r.Header.Get("Content-Type"); kind != "application/json" {
		b.Fatalf("%s %s: %s", method, name, kind)
	}
	if err := json.Unmarshal([]byte(out), v); err != nil {
		b.Fatalf("%s %s: %s: %v", method, name, out, err)
	}
	checkAPI(b.T, method, name, text, r.StatusCode, out)
	return r.StatusCode
}

func TestAPISubscribesListsAndUnsubscribes(t *testing.T) {
	b := newTestServer(t)
	var got SubscribeMessage
	if status := b.call("POST", "subscribe", `{"url":" feed:`+rssURL+` "}`, &got); status != 200 {
		t.Fatal(status)
	}
	want := "http://" + host + "/f/" + b.server.tokens.token(rssURL) + "/" + rssURL
	if got.URL != rssURL || got.ReadURL != want {
		t.Errorf("subscribed: %+v", got)
	}
	if auto, ok := b.node.subscriptions()[rssURL]; !ok || auto {
		t.Error("the subscription was not made by asking")
	}
	var listed ListResponse
	if status := b.call("GET", "list", "", &listed); status != 200 || len(listed.Channels) != 1 || listed.Channels[0].ReadURL != want {
		t.Errorf("%d %+v", status, listed)
	}
	// The address that was handed out works as well as the original.
	if status := b.call("POST", "unsubscribe", `{"url":"`+want+`"}`, &got); status != 200 || got.URL != rssURL || len(b.node.subscriptions()) != 0 {
		t.Errorf("%d %+v", status, got)
	}
	var fault ErrorResponse
	if status := b.call("POST", "unsubscribe", `{"url":"`+rssURL+`"}`, &fault); status != 404 || fault.Error == "" {
		t.Errorf("%d %+v", status, fault)
	}
}

func TestAPISubscribesQuietly(t *testing.T) {
	b := newTestServer(t)
	quietly := `{"url":"` + rssURL + `","quiet_follow":true}`
	var got SubscribeMessage
	if status := b.call("POST", "subscribe", quietly, &got); status != 200 || !got.QuietFollow || !slices.Equal(b.node.quiet, []string{rssURL}) {
		t.Errorf("%d %+v, quiet: %v", status, got, b.node.quiet)
	}
	var fault ErrorResponse
	if status := b.call("POST", "subscribe", quietly, &fault); status != 409 || fault.Error == "" {
		t.Errorf("a feed that other nodes know: %d %+v", status, fault)
	}
	if status := b.call("POST", "subscribe", `{"url":"`+rssURL+`","quiet_follow":true,"private":true}`, &fault); status != 400 || fault.Error == "" {
		t.Errorf("a private feed: %d %+v", status, fault)
	}
}

func TestAddressesBeginAsConfigured(t *testing.T) {
	b := newTestServer(t, func(c *Config) { c.BaseURL = "https://Feeds.example.org/" })
	var got SubscribeMessage
	b.call("POST", "subscribe", `{"url":"https://h.example/feed.xml"}`, &got)
	if want := b.server.ReadURL("https://feeds.example.org", rssURL); got.ReadURL != want {
		t.Errorf("%s, want %s", got.ReadURL, want)
	}
	// An address of this node is recognised by any of its names.
	b.call("POST", "subscribe", `{"url":"`+got.ReadURL+`"}`, &got)
	if len(b.node.subscriptions()) != 1 {
		t.Errorf("%v", b.node.subscriptions())
	}
}

func TestListHasTheKeysThatScriptsRelyOn(t *testing.T) {
	b := newTestServer(t)
	at := time.Date(2026, 11, 20, 11, 59, 30, 123456789, time.FixedZone("", 3600))
	b.node.subscribed[rssURL] = false
	b.node.channels[rssURL] = Channel{LastPoll: OptionalTime(at), NextPoll: OptionalTime(time.Time{})}
	var listed struct {
		Channels []map[string]any `json:"channels"`
	}
	b.call("GET", "list", "", &listed)
	keys := strings.Fields("url title kind read_url subscribers owners pollers rank phase_s last_poll next_poll why budget level state error " +
		"since items provenance detection_expected_s detection_observed_s")
	for _, key := range keys {
		if _, ok := listed.Channels[0][key]; !ok {
			t.Errorf("list has no %s", key)
		}
	}
	if c := listed.Channels[0]; c["last_poll"] != "2026-11-20T10:59:30.123Z" || c["next_poll"] != nil || c["rank"] != nil {
		t.Errorf("%v", c)
	}
	var status map[string]any
	b.call("GET", "status", "", &status)
	for _, key := range strings.Fields("id peer_id addresses peers estimate_n channels_owned channels_polled subscriptions uptime_s version network scheme lambda clusters entry_points") {
		if _, ok := status[key]; !ok {
			t.Errorf("status has no %s", key)
		}
	}
}

func TestEmptyListsAreNotNull(t *testing.T) {
	b := newTestServer(t)
	for name, want := range map[string]string{
		"list": `{"channels":[]}`, "doctor": `{"findings":[]}`, "status": `"addresses":[]`,
	} {
		r := b.ask("GET", apiPath+name, "Tidings", "1")
		if text := body(t, r); !strings.Contains(text, want) || r.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %s", name, text)
		}
	}
}

func TestAPIReturnsTheDoctorsFindings(t *testing.T) {
	b := newTestServer(t)
	b.node.findings = []Finding{{"problem", locale.Text{"the disk is full"}, locale.Text{"make room"}}}
	var d DoctorResponse
	if status := b.call("GET", "doctor", "", &d); status != 200 || !reflect.DeepEqual(d.Findings, b.node.findings) {
		t.Errorf("%d %+v", status, d)
	}
}

func TestAPIRequestsAreChecked(t *testing.T) {
	b := newTestServer(t)
	b.node.room = 0
	long := `{"url":"` + strings.Repeat("x", maxRequest) + `"}`
	for _, c := range []struct {
		method, name, kind, text string
		status                   int
	}{
		{"GET", "subscribe", "", "", 405},
		{"POST", "list", "application/json", "{}", 405},
		{"POST", "status", "application/json", "{}", 405},
		{"POST", "doctor", "application/json", "{}", 405},
		{"DELETE", "opml", "", "", 405},
		{"POST", "subscribe", "", `{"url":"` + rssURL + `"}`, 415},
		{"POST", "subscribe", "text/plain", `{"url":"` + rssURL + `"}`, 415},
		{"POST", "subscribe", "application/x-www-form-urlencoded", "url=" + rssURL, 415},
		{"POST", "subscribe", "application/json", "", 400},
		{"POST", "subscribe", "application/json", "{}", 400},
		{"POST", "subscribe", "application/json", `{"url":7}`, 400},
		{"POST", "subscribe", "application/json", `{"url":"https://u:p@h.example/"}`, 400},
		{"POST", "subscribe", "application/json", `{"url":"file:///etc/passwd"}`, 400},
		{"POST", "subscribe", "application/json", long, 413},
		{"POST", "subscribe", "application/json; charset=utf-8", `{"url":"` + rssURL + `"}`, 507},
		{"POST", "opml", "", "no list", 400},
		{"GET", "opml?rewrite=2", "", "", 400},
		{"GET", "nothing", "", "", 404},
		{"GET", "", "", "", 404},
	} {
		r := b.send(request(c.method, apiPath+c.name, strings.NewReader(c.text), "Tidings", "1", "Content-Type", c.kind))
		var fault ErrorResponse
		text := body(t, r)
		if err := json.Unmarshal([]byte(text), &fault); err != nil || fault.Error == "" || r.StatusCode != c.status {
			t.Errorf("%s %s %s %.60q: %d %s", c.method, c.name, c.kind, c.text, r.StatusCode, text)
		}
	}
}

func TestListsAreExportedAndImported(t *testing.T) {
	b := newTestServer(t)
	for _, url := range []string{rssURL, atomURL, jsonURL} {
		b.node.Subscribe(t.Context(), url, false)
	}
	export := func(rewrite string) (doc string, addresses []string) {
		r := b.ask("GET", apiPath+"opml"+rewrite, "Tidings", "1")
		doc = body(t, r)
		outlines, _, err := feed.ParseOPML([]byte(doc))
		if err != nil || r.Header.Get("Content-Type") != opmlType {
			t.Fatalf("%v: %s", err, doc)
		}
		for _, o := range feed.Subscriptions(outlines) {
			addresses = append(addresses, o.XMLURL)
		}
		return doc, addresses
	}
	_, originals := export("?rewrite=0")
	if !slices.Equal(originals, []string{jsonURL, atomURL, rssURL}) { // sorted by title
		t.Errorf("originals: %v", originals)
	}
	doc, rewritten := export("")
	for i, url := range originals {
		if rewritten[i] != b.server.ReadURL("http://"+host, url) {
			t.Errorf("%s became %s", url, rewritten[i])
		}
	}
	// Exported addresses lead back to the same subscriptions.
	clear(b.node.subscribed)
	var result ImportResult
	if status := b.call("POST", "opml", doc, &result); status != 200 || result.Subscribed != 3 || result.Already != 0 || len(result.Failed) != 0 || len(b.node.subscriptions()) != 3 {
		t.Errorf("%d %+v: %v", status, result, b.node.subscriptions())
	}
	// Existing subscriptions are counted apart, except those that were made by reading.
	clear(b.node.subscribed)
	b.node.Subscribe(t.Context(), rssURL, false)
	b.node.Subscribe(t.Context(), atomURL, true)
	if status := b.call("POST", "opml", doc, &result); status != 200 || result.Subscribed != 3 || result.Already != 1 {
		t.Errorf("%d %+v", status, result)
	}
	var fault ErrorResponse
	if status := b.call("POST", "opml", "<opml/>", &fault); status != 400 || fault.Error != "the list contains no feeds" {
		t.Errorf("%d %+v", status, fault)
	}
}

func TestFoldersOfListsAreTags(t *testing.T) {
	b := newTestServer(t)
	doc := `<opml version="2.0"><head/><body>` +
		`<outline text="News"><outline text="Deep"><outline xmlUrl="` + atomURL + `"/></outline><outline xmlUrl="` + rssURL + `"/></outline>` +
		`<outline text="Other"><outline xmlUrl="` + rssURL + `"/></outline><outline xmlUrl="` + jsonURL + `"/></body></opml>`
	var result ImportResult
	if status := b.call("POST", "opml", doc, &result); status != 200 || result.Subscribed != 3 || len(result.Failed) != 0 {
		t.Fatalf("%d %+v", status, result)
	}
	tags := func() map[string]string {
		var listed ListResponse
		b.call("GET", "list", "", &listed)
		tags := map[string]string{}
		for _, c := range listed.Channels {
			tags[c.URL] = strings.Join(c.Tags, " ")
		}
		return tags
	}
	want := map[string]string{atomURL: "News/Deep", rssURL: "News Other", jsonURL: ""}
	if got := tags(); !maps.Equal(got, want) {
		t.Errorf("tags %v, want %v", got, want)
	}
	// The exported list has the same folders.
	exported := body(t, b.ask("GET", apiPath+"opml?rewrite=0", "Tidings", "1"))
	clear(b.node.subscribed)
	clear(b.node.channels)
	if b.call("POST", "opml", exported, &result); !maps.Equal(tags(), want) {
		t.Errorf("tags %v, want %v, by\n%s", tags(), want, exported)
	}
	// Tags in a request replace the tags of the subscription; a request without tags keeps them.
	var done SubscribeMessage
	b.call("POST", "subscribe", `{"url":"`+atomURL+`","tags":["  two\n words ","","two words"]}`, &done)
	b.call("POST", "subscribe", `{"url":"`+rssURL+`"}`, &done)
	want = map[string]string{atomURL: "two words", rssURL: "News Other", jsonURL: ""}
	if got := tags(); !maps.Equal(got, want) {
		t.Errorf("tags %v, want %v", got, want)
	}
	// Tags beyond the limits are refused, and change nothing.
	for bad, why := range map[string]string{
		`"` + strings.Repeat("x", maxTag+1) + `"`: "a tag has at most 256 bytes",
		`"t"` + strings.Repeat(`,"t"`, maxTags):   "at most 16 tags, and these are 17",
	} {
		var fault ErrorResponse
		if status := b.call("POST", "subscribe", `{"url":"`+atomURL+`","tags":[`+bad+`]}`, &fault); status != 400 || !strings.Contains(fault.Error, why) {
			t.Errorf("%d %q, want %q", status, fault.Error, why)
		}
	}
	// The folders of a list are added to the tags of a feed.
	b.call("POST", "opml", doc, &result)
	want[atomURL] = "two words News/Deep"
	if got := tags(); !maps.Equal(got, want) {
		t.Errorf("tags %v, want %v", got, want)
	}
}

// A list that was imported is exported unchanged: with its folders, titles and site addresses.
func TestAnImportedListIsExportedUnchanged(t *testing.T) {
	const list = `<outline text="By itself" title="By itself" type="rss" xmlUrl="https://h.example/alone.xml"></outline>
    <outline text="News" title="News">
      <outline text="A name &amp; more" title="A name &amp; more" type="rss" xmlUrl="https://h.example/a.xml" htmlUrl="https://h.example/blog"></outline>
      <outline text="Local" title="Local">
        <outline text="Mine" title="Mine" type="rss" xmlUrl="https://h.example/m.xml"></outline>
        <outline text="Very" title="Very">
          <outline text="Mine" title="Mine" type="rss" xmlUrl="https://h.example/m.xml"></outline>
        </outline>
      </outline>
    </outline>`
	b := newTestServer(t)
	var result ImportResult
	if status := b.call("POST", "opml", `<opml version="2.0"><body>`+list+`</body></opml>`, &result); status != 200 || result.Subscribed != 3 {
		t.Fatalf("%d %+v", status, result)
	}
	exported := func(rewrite string) string {
		return body(t, b.ask("GET", apiPath+"opml?rewrite="+rewrite, "Tidings", "1"))
	}
	if got := exported("0"); !strings.Contains(got, list) {
		t.Errorf("it comes back as\n%s", got)
	}
	// A list with this node's own addresses describes the same subscriptions.
	handed := exported("1")
	clear(b.node.subscribed)
	clear(b.node.channels)
	b.call("POST", "opml", handed, &result)
	if got := exported("0"); !strings.Contains(got, list) {
		t.Errorf("it comes back as\n%s", got)
	}
	// The user's titles stay when the feeds have their own.
	b.node.publish(t, "https://h.example/a.xml", rssDoc(1, 2))
	if got := exported("0"); !strings.Contains(got, list) {
		t.Errorf("it comes back as\n%s", got)
	}
}

func TestPagesAreExportedWithTheNodesAddresses(t *testing.T) {
	b := newTestServer(t)
	const page = "page+https://h.example/"
	b.node.subscribed[page], b.node.subscribed[rssURL] = false, false
	for rewrite, want := range map[string]bool{"0": false, "1": true} {
		got := body(t, b.ask("GET", apiPath+"opml?rewrite="+rewrite, "Tidings", "1"))
		if strings.Contains(got, page) != want || !strings.Contains(got, rssURL) {
			t.Errorf("rewrite=%s:\n%s", rewrite, got)
		}
	}
}

func TestUnusualTagsAreExportedAsValidFolders(t *testing.T) {
	b := newTestServer(t)
	b.node.subscribed[rssURL] = false
	b.node.channels[rssURL] = Channel{Tags: []string{"/", "//a// b /", strings.Repeat("x/", maxTag/2)}}
	outlines, _, err := feed.ParseOPML([]byte(body(t, b.ask("GET", apiPath+"opml", "Tidings", "1"))))
	var folders []string
	for folder := range feed.Subscriptions(outlines) {
		folders = append(folders, folder)
	}
	if want := []string{"", "a/b", strings.TrimSuffix(strings.Repeat("x/", maxTag/2), "/")}; err != nil || !slices.Equal(folders, want) {
		t.Errorf("%q, %v", folders, err)
	}
}

func TestWithoutPassword(t *testing.T) {
	for address, want := range map[string]string{
		"https://me:pw@h.example/a@b":                                 "https://…@h.example/a@b",
		"https://me@h.example":                                        "https://…@h.example",
		"//me:p@w@h.example/":                                         "//…@h.example/",
		"me:pw@h.example/feed":                                        "…@h.example/feed",
		"https://h.example/@me":                                       "https://h.example/@me",
		"https://h.example?a@b":                                       "https://h.example?a@b",
		"https:/me:pw@h.example/":                                     "https:/…@h.example/",
		"https:///me:pw@h.example/":                                   "https:///…@h.example/",
		`https:\\me:pw@h.example\`:                                    `https:\\…@h.example\`,
		"https://me:p/w@h.example/":                                   "https://…@h.example/",
		"https://me:p#w?@h.example":                                   "https://…@h.example",
		"https://h.example:80/@me":                                    "https://h.example:80/@me",
		"page+https://me:pw@h.example":                                "page+https://…@h.example",
		"feed:https://me:pw@h.example":                                "feed:https://…@h.example",
		"http://h.example/f/0/https://me:pw@b.example/":               "http://h.example/f/0/https://…@b.example/",
		"http://h.example/feed?url=https%3A%2F%2Fme%3Apw%40b.example": "http://h.example/feed?url=https%3A%2F%2F…@b.example",
		"": "",
	} {
		if got := WithoutPassword(address); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}

func TestImportErrorsDoNotShowPasswords(t *testing.T) {
	b := newTestServer(t)
	var result ImportResult
	b.call("POST", "opml", `<opml version="2.0"><body><outline xmlUrl="https://me:secret@h.example/feed"/></body></opml>`, &result)
	if len(result.Failed) != 1 || result.Failed[0].URL != "https://…@h.example/feed" || strings.Contains(result.Failed[0].Error, "secret") {
		t.Errorf("%+v", result)
	}
}

// An import that is asked for its progress answers with lines, of which the last one is the result.
func TestImportTellsItsProgress(t *testing.T) {
	b := newTestServer(t)
	r := b.send(request("POST", apiPath+"opml?progress=1", strings.NewReader(`<opml version="2.0"><body><outline xmlUrl="`+atomURL+`"/></body></opml>`), "Tidings", "1"))
	answer := body(b, r)
	lines := strings.Split(strings.TrimSpace(answer), "\n")
	for _, line := range lines[:len(lines)-1] {
		var p ImportProgress
		if err := json.Unmarshal([]byte(line), &p); err != nil || p.State == "" || p.Done > p.All {
			t.Errorf("%s: %v", line, err)
		}
	}
	var result ImportResult
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &result); err != nil || r.StatusCode != 200 || r.Header.Get("Content-Type") != linesType || len(lines) < 2 || result.Subscribed != 1 || len(result.Failed) != 0 {
		t.Errorf("%d %q: %v", r.StatusCode, answer, err)
	}
}

func TestAddressesOfOtherNodesAreUnwrapped(t *testing.T) {
	b := newTestServer(t)
	token := tokenMaker("another node's secret").token(atomURL)
	const old = "https://nas.example/f/00112233445566778899aabbccddeeff/https://h.example/old"
	b.node.Subscribe(t.Context(), old, false)
	b.node.inspections["page+https://h.example/"] = Inspection{Page: true}
	for given, want := range map[string]string{
		"http://127.0.0.1:8191/f/" + token + "/" + atomURL:                            atomURL,
		"https://nas.example/f/" + token + "/" + atomURL:                              atomURL,
		"http://nas.example:8190/f/" + token + "/page+https://h.example/":             "page+https://h.example/",
		"http://a.example/f/" + token + "/http://b.example/f/" + token + "/" + rssURL: rssURL,
		"http://localhost:8191/feed?url=" + url.QueryEscape(atomURL) + "&format=json": atomURL,
		// These addresses may be ordinary feeds.
		"https://h.example/feed?url=" + rssURL:           "https://h.example/feed?url=" + rssURL,
		"http://127.0.0.1:8191/feed?url=7":               "http://127.0.0.1:8191/feed?url=7",
		"https://h.example/f/" + token + "/feed.xml":     "https://h.example/f/" + token + "/feed.xml",
		"https://h.example/f/short/https://b.example/":   "https://h.example/f/short/https://b.example/",
		"https://web.example/https://h.example/feed.xml": "https://web.example/https://h.example/feed.xml",
		old: old,
	} {
		var done SubscribeMessage
		if b.call("POST", "subscribe", `{"url":"`+given+`"}`, &done); done.URL != want {
			t.Errorf("%s\nsubscribed to %s\nnot to        %s", given, done.URL, want)
		}
	}
}

func TestOtherSchemesAreRejectedWithTheReason(t *testing.T) {
	b := newTestServer(t)
	for address, want := range map[string]string{
		"javascript:alert(1)":     "the address does not begin with http:// or https://",
		"data:text/html,<script>": "the address does not begin with http:// or https://",
		"mailto:a@h.example":      "the address does not begin with http:// or https://",
		"h.example:99999":         "the port is not between 1 and 65535",
		"example.org:8080/feed":   "",
		"localhost:8080":          "",
		"example.org/a:b":         "",
	} {
		var fault ErrorResponse
		if b.call("POST", "subscribe", `{"url":"`+address+`"}`, &fault); fault.Error != want {
			t.Errorf("%s: %q, want %q", address, fault.Error, want)
		}
	}
}

func TestHostsThatAreNotOnTheWebNeedAScheme(t *testing.T) {
	const none = ": not an address: begin it with https:// or http://"
	for address, want := range map[string]string{
		"hello":                    "hello" + none,
		"feed.xml":                 "feed.xml" + none,
		"./subs.opml":              "./subs.opml" + none,
		"/home/me/feed.xml":        "/home/me/feed.xml" + none,
		"nas:8080/feed":            "nas:8080/feed" + none,
		"page+hello":               "page+hello" + none,
		"github.io":                "",
		"me.github.io/feed":        "",
		"example.org":              "",
		"Example.ORG./feed":        "",
		"bücher.de/feed":           "",
		"испытание.рф":             "",
		"page+example.org/a":       "",
		"localhost/feed":           "",
		"blog.localhost/feed":      "",
		"192.0.2.7/feed":           "",
		"[2001:db8::1]:8080/feed":  "",
		"http://hello":             "",
		"https://nas:8080/feed":    "",
		"feed:https://hello/a.xml": "",
	} {
		b := newTestServer(t)
		b.node.inspections["page+https://example.org/a"] = Inspection{Page: true}
		var fault ErrorResponse
		status := b.call("POST", "subscribe", `{"url":"`+address+`"}`, &fault)
		if fault.Error != want || (want == "") != (status == 200) {
			t.Errorf("%s: %d %q, want %q", address, status, fault.Error, want)
		}
	}
}

// A server on this machine rarely speaks HTTPS.
func TestAnAddressOfThisMachineWithoutASchemeIsHTTP(t *testing.T) {
	for typed, want := range map[string]string{
		"localhost:8000/feed":        "http://localhost:8000/feed",
		"LOCALHOST/feed":             "http://localhost/feed",
		"127.0.0.1:8000/feed":        "http://127.0.0.1:8000/feed",
		"[::1]:8000/feed":            "http://[::1]:8000/feed",
		"localhost.example.org/feed": "https://localhost.example.org/feed",
	} {
		b := newTestServer(t)
		var done SubscribeMessage
		if status := b.call("POST", "subscribe", `{"url":"`+typed+`"}`, &done); status != 200 || done.URL != want {
			t.Errorf("%s: %d %q, want %q", typed, status, done.URL, want)
		}
	}
}

func TestAnImportSaysWhatFailed(t *testing.T) {
	b := newTestServer(t)
	b.node.room = 2
	doc := `<opml version="2.0"><head/><body><outline text="folder"><outline xmlUrl="` + rssURL + `"/><outline xmlUrl="feed:` + rssURL + `"/></outline>` +
		`<outline xmlUrl="ftp://h.example/"/><outline xmlUrl="` + jsonURL + `"/></body></opml>`
	var result ImportResult
	if status := b.call("POST", "opml", doc, &result); status != 200 || result.Subscribed != 2 || len(result.Failed) != 1 || result.Failed[0].URL != "ftp://h.example/" {
		t.Errorf("%d %+v", status, result)
	}
	b = newTestServer(t)
	b.node.room = 7
	doc = `<opml version="2.0"><head/><body>`
	for i := range 100 {
		doc += fmt.Sprintf(`<outline xmlUrl="https://h.example/%d"/>`, i)
	}
	doc += `</body></opml>`
	if status := b.call("POST", "opml", doc, &result); status != http.StatusOK || result.Subscribed != 7 || len(result.Failed) != 93 {
		t.Errorf("%d: %d subscribed, %d failed", status, result.Subscribed, len(result.Failed))
	}
}

// A line that cannot be read is named, and the others are subscribed to.
func TestAnImportNamesLinesThatCannotBeRead(t *testing.T) {
	b := newTestServer(t)
	doc := "<opml>\n<outline xmlUrl='" + rssURL + "'/>\n<outline xmlUrl='https://me:secret@h.example//>\n<outline text='AT&amp;amp;T &lt;b&gt;News&lt;/b&gt;' xmlUrl='" + jsonURL + "'/></opml>"
	var result ImportResult
	status := b.call("POST", "opml", doc, &result)
	if status != 200 || result.Subscribed != 2 || len(result.Failed) != 1 || result.Failed[0].Line != 3 || result.Failed[0].Error == "" || strings.Contains(result.Failed[0].Error, "secret") {
		t.Errorf("%d %+v", status, result)
	}
	var listed ListResponse
	if b.call("GET", "list", "", &listed); len(listed.Channels) != 2 || listed.Channels[1].Title != "AT&T News" {
		t.Errorf("%+v", listed.Channels)
	}
}

// An entry that names a page is resolved as subscribe does. What cannot be read now is subscribed to as it is.
func TestAnImportFindsTheFeedsOfPages(t *testing.T) {
	b := newTestServer(t)
	const one, two, none, down = "https://one.example/", "https://two.example/", "https://none.example/", "https://down.example/"
	b.node.inspections[one] = Inspection{Page: true, Feeds: []Choice{{URL: rssURL, Kind: KindFeed}}}
	b.node.inspections[rssURL], b.node.inspections[atomURL], b.node.inspections[jsonURL] = Inspection{Feed: true}, Inspection{Feed: true}, Inspection{Feed: true}
	b.node.inspections[two] = Inspection{Page: true, Feeds: []Choice{{URL: atomURL, Kind: KindFeed}, {URL: jsonURL, Kind: KindFeed}}}
	b.node.inspectErrors[none], b.node.inspectErrors[down] = ErrNotFeed, ErrNotFound
	doc := "<opml><outline text='News'>"
	for _, address := range []string{one, two, none, down} {
		doc += "<outline text='Mine' xmlUrl='" + address + "'/>"
	}
	var result ImportResult
	b.call("POST", "opml", doc+"</outline></opml>", &result)
	if got := slices.Sorted(maps.Keys(b.node.subscriptions())); !slices.Equal(got, []string{down, rssURL}) || result.Found != 1 || len(result.Failed) != 2 {
		t.Fatalf("%q %+v", got, result)
	}
	if f := result.Failed; f[0].URL != two || len(f[0].Choices) != 3 || f[1].URL != none {
		t.Errorf("%+v", f)
	}
	if c := b.node.channels[rssURL]; c.Title != "Mine" || !slices.Equal(c.Tags, []string{"News"}) {
		t.Errorf("%+v", c)
	}
	// The requests of one import are bounded; addresses that do not look like feeds come first.
	b = newTestServer(t)
	doc = "<opml>"
	for i := range maxDiscovered + 10 {
		doc += fmt.Sprintf("<outline xmlUrl='https://h.example/feed/%d'/>", i)
	}
	b.node.inspections[one], b.node.inspections[rssURL] = Inspection{Page: true, Feeds: []Choice{{URL: rssURL, Kind: KindFeed}}}, Inspection{Feed: true}
	b.call("POST", "opml", doc+"<outline xmlUrl='"+one+"'/></opml>", &result)
	if result.Found != 1 || result.Subscribed != maxDiscovered+11 || b.node.inspected > maxDiscovered+1 {
		t.Errorf("%d inspections, %+v", b.node.inspected, result)
	}
}

// A list is imported completely, however long the answer takes. A line of progress has a time to be written, as any answer.
func TestALongImportGetsItsAnswer(t *testing.T) {
	for path, deadlines := range map[string]int{"opml": 1, "opml?progress=1": 2} {
		b := newTestServer(t)
		doc := `<opml version="2.0"><head/><body><outline xmlUrl="` + rssURL + `"/></body></opml>`
		w := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder(), node: b.node}
		b.server.ServeHTTP(w, request("POST", apiPath+path, strings.NewReader(doc), "Tidings", "1", "Content-Type", "text/x-opml"))
		if w.Code != 200 || len(w.set) < 1+deadlines || !w.set[0].IsZero() {
			t.Errorf("%s: %d, to be written until %v", path, w.Code, w.set)
		}
		for _, until := range w.set[1:] {
			if !until.After(time.Now()) {
				t.Errorf("%s: to be written until %v", path, until)
			}
		}
		if w.then != 0 {
			t.Errorf("%s: %d subscriptions were made while there was a deadline", path, w.then)
		}
	}
}

// A deadlineRecorder records the write deadlines of a connection, and how many subscriptions there were at the
// first one.
type deadlineRecorder struct {
	*httptest.ResponseRecorder
	node *memoryNode
	set  []time.Time
	then int
}

func (d *deadlineRecorder) SetWriteDeadline(t time.Time) error {
	if len(d.set) == 0 {
		d.then = len(d.node.subscriptions())
	}
	d.set = append(d.set, t)
	return nil
}
