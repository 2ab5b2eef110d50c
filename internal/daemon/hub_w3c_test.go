package daemon

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// The tests for hubs of the W3C's test suite for WebSub (websub.rocks, hub 100 to 106), with the requests that it sends. Test
// 105, of a topic that is plain text, needs a topic that is no feed, and this hub has none.
func TestTheHubPassesTheTestsOfTheW3C(t *testing.T) {
	t.Parallel()
	m, source, followed := followingFerries(t, "w3chub")

	// discover finds the topic and the hub of an address, as the suite does before it subscribes.
	discover := func(address string) (topic, hub, mediaType string) {
		a, err := http.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		_ = a.Body.Close()
		found := links(a.Header)
		if found["self"] == "" || found["hub"] == "" {
			t.Fatalf("%s names no hub: %v", address, a.Header)
		}
		return found["self"], found["hub"], a.Header.Get("Content-Type")
	}
	const secret = "0123456789abcdefghij"
	tests := []struct {
		name      string
		format    string   // of the topic
		more      []string // parameters
		signed    bool
		twice     bool // subscribes again before the lease ends
		unwelcome bool // unsubscribes
		*subscriber
	}{
		{name: "100 typical request"},
		{name: "101 with a secret", more: []string{"hub.secret", secret}, signed: true},
		{name: "102 with further parameters", more: []string{"foo", "bar", "hub.foo", "hub.bar"}},
		{name: "103 subscribes again", twice: true},
		{name: "104 unsubscribes", unwelcome: true},
		{name: "106 a topic in JSON", format: "json"},
	}
	for i := range tests {
		test := &tests[i]
		test.subscriber = newSubscriber(t)
		address := followed.ReadURL
		if test.format != "" {
			address = fmt.Sprintf("http://%s/feed?url=%s&format=%s", m.HTTPAddr(), url.QueryEscape(source.URL+"/news.xml"), test.format)
		}
		topic, hub, _ := discover(address)
		asks := 0
		ask := func(mode string) {
			form := append([]string{"hub.mode", mode, "hub.topic", topic, "hub.callback", test.URL}, test.more...)
			if status := askHub(t, hub, form...); status != http.StatusAccepted {
				t.Errorf("%s: %s: status %d", test.name, mode, status)
			}
			asks++
			q := test.asked(asks)
			if q.Get("hub.mode") != mode || q.Get("hub.topic") != topic || q.Get("hub.challenge") == "" || (q.Get("hub.lease_seconds") == "") != (mode == "unsubscribe") {
				t.Errorf("%s: the hub asks %v", test.name, q)
			}
		}
		ask("subscribe")
		if test.twice {
			ask("subscribe")
		}
		if test.unwelcome {
			m.awaitSubscribers(t, i+1)
			ask("unsubscribe")
			m.awaitSubscribers(t, i)
		}
	}
	m.awaitSubscribers(t, len(tests)-1)

	source.add("Pier 2")
	for i := range tests {
		test := &tests[i]
		if test.unwelcome {
			continue
		}
		p := test.pinged("Pier 2")
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(p.body))
		want := ""
		if test.signed {
			want = "sha256=" + hex.EncodeToString(mac.Sum(nil))
		}
		if got := p.header.Get("X-Hub-Signature"); got != want {
			t.Errorf("%s: the signature is %q, want %q", test.name, got, want)
		}
		topic, hub, mediaType := discover(links(p.header)["self"])
		if l := links(p.header); l["hub"] != hub || l["self"] != topic || p.header.Get("Content-Type") != mediaType {
			t.Errorf("%s: the delivery has %v", test.name, p.header)
		}
		if isJSON := json.Valid([]byte(p.body)); isJSON != (test.format == "json") || isJSON != strings.Contains(mediaType, "json") {
			t.Errorf("%s: the delivery is %s %.40q", test.name, mediaType, p.body)
		}
		test.set(func() {
			if len(test.pings) != 1 {
				t.Errorf("%s: %d deliveries of one item", test.name, len(test.pings))
			}
		})
	}
	for i := range tests {
		tests[i].set(func() {
			if tests[i].unwelcome && len(tests[i].pings) > 0 {
				t.Errorf("%s: a delivery", tests[i].name)
			}
		})
	}
}
