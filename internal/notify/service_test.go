package notify

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
)

// The services get a message where they expect it. HOST stands for a server of the test.
var serviceCases = []struct{ kind, address, path, auth string }{
	{"ntfy", "ntfy://captain:gangway@HOST/ferry?scheme=http", "POST /ferry", ""},
	{"gotify", "gotify://HOST/Aggggggggangway?disabletls=yes", "POST /message", "gangway"},
	{"mattermost", "mattermost://HOST/gangwaytoken?disabletls=yes", "POST /hooks/gangwaytoken", ""},
	{"matrix", "matrix://:gangway@HOST/?rooms=!pier:ferry.example&disableTLS=yes", "PUT /_matrix/client/v3/rooms/%21pier:ferry.example/send/m.room.message/msg_1-msg_1", "Bearer gangway"},
}

func TestServicesGetMessages(t *testing.T) {
	for _, c := range serviceCases {
		t.Run(c.kind, func(t *testing.T) {
			r := newReceiver(t)
			r.answer = func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{}`) }
			host := strings.TrimPrefix(r.URL, "http://")
			target, err := openSender().Open(strings.Replace(c.address, "HOST", host, 1), "")
			if err != nil {
				t.Fatal(err)
			}
			if target.Kind != c.kind || target.Shown != c.kind+"://"+host+"/…" || target.Batch < 100 || target.Pause == 0 {
				t.Errorf("the target is %+v", target)
			}
			if err := target.Send(t.Context(), []Message{pier("1")}); err != nil {
				t.Fatal(err)
			}
			q := r.requests[0]
			if got := q.Method + " " + q.URL.EscapedPath(); !strings.HasPrefix(got, c.path) || c.kind == "matrix" && q.Header.Get("Authorization") != c.auth ||
				!strings.Contains(r.bodies[0], "Ferry news: Pier 1") || !strings.Contains(r.bodies[0], "https://ferry.example/1") {
				t.Errorf("the request is %s %v: %s", got, q.Header, r.bodies[0])
			}

			var flood []Message
			for i := range 150 {
				flood = append(flood, pier(fmt.Sprint(i)))
			}
			if err := target.Send(t.Context(), flood); err != nil || len(r.requests) != 2 || !strings.Contains(r.bodies[1], "150 pieces of news") || !strings.Contains(r.bodies[1], "more") {
				t.Errorf("a flood: %v, %d requests, %s", err, len(r.requests), r.bodies[len(r.bodies)-1])
			}

			r.answer = func(w http.ResponseWriter) {
				w.Header().Set("Retry-After", "60")
				w.WriteHeader(http.StatusTooManyRequests)
				_, _ = io.WriteString(w, `{"error":"gangway"}`)
			}
			err = target.Send(t.Context(), []Message{pier("2")})
			if f, ok := errors.AsType[*Failure](err); !ok || f.Final || f.Wait.Seconds() != 60 || strings.Contains(f.Text, "gangway") {
				t.Errorf("429: %+v", err)
			}

			private := New(Config{Control: func(_, address string, _ syscall.RawConn) error {
				return errors.New(address + " is not a public address")
			}, AllowPrivate: true})
			before := len(r.requests)
			if target, err = private.Open(strings.Replace(c.address, "HOST", host, 1), ""); err == nil {
				err = target.Send(t.Context(), []Message{pier("3")})
			}
			if err == nil || !strings.Contains(err.Error(), "--allow-private-origins") || len(r.requests) != before {
				t.Errorf("at a private address: %v", err)
			}
			strict := New(Config{Control: func(string, string, syscall.RawConn) error { return nil }})
			if target, err = strict.Open(strings.Replace(c.address, "HOST", host, 1), ""); err == nil {
				err = target.Send(t.Context(), []Message{pier("4")})
			}
			if err == nil || !strings.Contains(err.Error(), "https") || len(r.requests) != before {
				t.Errorf("without TLS: %v", err)
			}
		})
	}
}

// Services at hosts of their own.
func TestServicesOfOneHost(t *testing.T) {
	for _, c := range []struct{ address, host string }{
		{"discord://" + strings.Repeat("gangway", 9) + "abcde@123456789012345678", "discord.com"},
		{"pushover://shoutrrr:gangwaygangway@captaincaptain/", "api.pushover.net"},
		{"slack://hook:AAAAAAAAA-BBBBBBBBB-123456789123456789123456@webhook", "hooks.slack.com"},
		{"telegram://123456789:AAHgangwaygangwaygangwaygangwaygan_@telegram?chats=@ferry", "api.telegram.org"},
		{"pushbullet://" + strings.Repeat("gangway", 4) + "abcdef/device", "api.pushbullet.com"},
	} {
		s := openSender()
		var asked []string
		for _, status := range []int{http.StatusOK, http.StatusUnauthorized} {
			server := roundTrip(func(r *http.Request) (*http.Response, error) {
				asked = append(asked, r.URL.Host)
				body := `{"ok":true,"status":1,"active":true}`
				if r.URL.Host == "hooks.slack.com" {
					body = "ok"
				}
				if status != http.StatusOK {
					body = `{"ok":false,"description":"not ` + r.URL.String() + `"}`
				}
				return &http.Response{StatusCode: status, Status: fmt.Sprint(status), Header: http.Header{}, Body: io.NopCloser(bytes.NewReader([]byte(body))), Request: r}, nil
			})
			s.client.Transport = server
			before := http.DefaultTransport
			http.DefaultTransport = server // what the library uses for these services
			target, err := s.Open(c.address, "")
			if err == nil {
				err = target.Send(t.Context(), []Message{pier("1")})
			}
			http.DefaultTransport = before
			if status == http.StatusOK && err != nil && c.host != "api.pushbullet.com" { // which answers with what was sent
				t.Errorf("%s: %v", c.host, err)
			}
			if status != http.StatusOK && (err == nil || strings.Contains(err.Error(), "gangway") || strings.Contains(err.Error(), "://")) {
				t.Errorf("%s: %v", c.host, err)
			}
			if target != nil && strings.Contains(target.Shown, "gangway") {
				t.Errorf("%s is shown", target.Shown)
			}
		}
		if len(asked) < 2 || asked[0] != c.host {
			t.Errorf("%s: the hosts %v are asked", c.host, asked)
		}
	}
}

func TestAServiceThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openSender()
		s.client.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		for _, address := range []string{"ntfy://ntfy.example/ferry", "discord://" + strings.Repeat("gangway", 9) + "abcde@123456789012345678", "matrix://:gangway@matrix.example/?rooms=!a:b"} {
			target, err := s.Open(address, "")
			if err != nil {
				t.Fatal(err)
			}
			if err := target.Send(t.Context(), []Message{pier("1")}); err == nil || strings.Contains(err.Error(), "gangway") {
				t.Errorf("%s: %v", address, err)
			}
		}
	})
}

func TestAddressesOfServices(t *testing.T) {
	for _, c := range []struct{ address, why string }{
		{"generic://hooks.example", "the name of a service"},
		{"logger://", "the name of a service"}, {"ntfy://", ""}, {"discord://gangway", "discord"}, {"slack://gangway", "slack"},
		{"telegram://gangway@telegram", "telegram"}, {"ntfy://ntfy.sh/ferry?priority=gangway", ""},
		{"pushover://gangway", "pushover"}, {"mattermost://chat.example", "mattermost"}, {"rocketchat://chat.example", "rocketchat"},
		{"matrix://gangway@matrix.example/?rooms=!a", "TOKEN"}, {"matrix://:gangway@matrix.example/", "room"}, {"matrix://:gangway@matrix.example/?rooms=%23a", "begin with !"},
		{"matrix://captain:gangway@matrix.example/?rooms=!a", "TOKEN"}, {"matrix://:gangway@/?rooms=!a", "TOKEN"},
	} {
		target, err := openSender().Open(c.address, "")
		if err == nil || !strings.Contains(err.Error(), c.why) || strings.Contains(err.Error(), "gangway") {
			t.Errorf("%s: %+v, %v", c.address, target, err)
		}
	}
}

func TestBriefTexts(t *testing.T) {
	long := Message{Source: strings.Repeat("ä", 300), Title: strings.Repeat("ö", 300), Link: "https://ferry.example/" + strings.Repeat("a", 900), Text: strings.Repeat("ü\n", 900)}
	for n, messages := range map[string][]Message{
		"Ferry news: Pier 1\nThe ferry leaves from pier 1.\nhttps://ferry.example/1":                                 {pier("1")},
		"2 pieces of news\nFerry news: Pier 1\nhttps://ferry.example/1\nFerry news: Pier 2\nhttps://ferry.example/2": {pier("1"), pier("2")},
		"Ferry news: A B":      {{Source: "Ferry\nnews", Title: "A\x1b\tB", Text: " A\x1b\tB "}},
		"Ferry news: A\nand B": {{Source: "Ferry news", Title: "A", Text: "A\nand B"}},
	} {
		if got := brief(messages); got != n {
			t.Errorf("%q, want %q", got, n)
		}
	}
	for _, messages := range [][]Message{{long}, {long, long, long, long}, {long, pier("1")}} {
		if got := brief(messages); len(got) > maxText || strings.Contains(got, "\uFFFD") {
			t.Errorf("%d bytes: %s", len(got), got)
		}
	}
}

// A service cannot lead the node to an address that it may not reach.
func TestRedirectsToPrivateAddresses(t *testing.T) {
	inner := newReceiver(t)
	for _, c := range append(serviceCases, struct{ kind, address, path, auth string }{"webhook", "http://HOST/hook", "", ""}) {
		for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect} {
			outer := newReceiver(t)
			outer.answer = func(w http.ResponseWriter) {
				w.Header().Set("Location", inner.URL+"/admin")
				w.WriteHeader(status)
			}
			host := strings.TrimPrefix(outer.URL, "http://")
			s := New(Config{AllowPrivate: true, Control: func(_, address string, _ syscall.RawConn) error {
				if address != host {
					return errors.New(address + " is not a public address")
				}
				return nil
			}})
			target, err := s.Open(strings.Replace(c.address, "HOST", host, 1), NewSecret())
			if err != nil {
				t.Fatal(err)
			}
			if err := target.Send(t.Context(), []Message{pier("1")}); err == nil || len(outer.requests) != 1 || len(inner.requests) > 0 {
				t.Errorf("%s %d: %v, %d and %d requests", c.kind, status, err, len(outer.requests), len(inner.requests))
			}
		}
	}
}
