package xmpp

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mellium.im/xmlstream"
	mellium "mellium.im/xmpp"
	"mellium.im/xmpp/jid"
	"mellium.im/xmpp/stream"
)

// A desk is a session without a login. The test is its server.
type desk struct {
	t *testing.T
	*session
	wire  net.Conn       // the server's end
	sent  chan inStanza  // what the session sends
	heard []heardMessage // what contacts said
	came  []string
}

type heardMessage struct{ contact, text string }

// An inStanza is what the session has sent.
type inStanza struct {
	XMLName xml.Name
	To      string `xml:"to,attr"`
	ID      string `xml:"id,attr"`
	Type    string `xml:"type,attr"`
	Body    string `xml:"body"`
	Ping    *struct {
	} `xml:"urn:xmpp:ping ping"`
}

func openDesk(t *testing.T, allow ...string) *desk {
	t.Helper()
	d := &desk{t: t, sent: make(chan inStanza, 100)}
	c, err := New(Config{
		JID: "news@chat.example", Password: func() (string, error) { return "", nil }, Allow: allow, Log: slog.New(slog.DiscardHandler),
		Heard: func(contact, text string) { d.heard = append(d.heard, heardMessage{contact, text}) },
		Came:  func(contact string) { d.came = append(d.came, contact) },
	})
	if err != nil {
		t.Fatal(err)
	}
	mine, theirs := net.Pipe()
	conn := &boundedConn{Conn: mine}
	conn.refill()
	link, err := mellium.NewSession(t.Context(), c.account.Domain(), c.account, conn, mellium.Secure|mellium.Authn|mellium.Ready, func(context.Context, *stream.Info, *stream.Info, *mellium.Session, any) (mellium.SessionState, io.ReadWriter, any, error) {
		return 0, nil, nil, errors.New("the session is ready")
	})
	if err != nil {
		t.Fatal(err)
	}
	alive, end := context.WithCancel(t.Context())
	d.wire, d.session = theirs, newSession(alive, c, link, conn)
	served := make(chan struct{})
	go func() {
		defer close(served)
		defer end()
		_ = link.Serve(d.session) // it ends with the connection
		_ = mine.Close()
	}()
	read := make(chan struct{})
	go func() {
		defer close(read)
		for in := xml.NewDecoder(theirs); ; {
			var s inStanza
			if in.Decode(&s) != nil {
				return
			}
			d.sent <- s
		}
	}()
	t.Cleanup(func() {
		_ = theirs.Close()
		_ = mine.Close()
		<-served
		<-read
	})
	return d
}

// say sends stanzas to the session, whose attributes are in single quotes.
func (d *desk) say(format string, args ...any) {
	d.t.Helper()
	if _, err := fmt.Fprintf(d.wire, format, args...); err != nil {
		d.t.Fatal(err)
	}
	synctest.Wait()
}

func TestAMessageIsConfirmedByTheContactsClient(t *testing.T) {
	const away = `<presence xmlns='jabber:client' type='unavailable' from='ann@chat.example/phone'/>`
	failed := func(condition string) string {
		return `<iq xmlns='jabber:client' type='error' from='ann@chat.example/phone' id='%s'><error type='cancel'><` + condition + ` xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>`
	}
	for _, c := range []struct{ name, before, answer, want string }{
		{"a client that knows pings", "", `<iq xmlns='jabber:client' type='result' from='ann@chat.example/phone' id='%s'/>`, ""},
		{"a client that knows no pings", "", failed("service-unavailable"), ""},
		{"a client that implements none", "", failed("feature-not-implemented"), ""},
		{"a client that has gone", away, failed("service-unavailable"), "did not confirm the message: service-unavailable"},
		{"a server that cannot reach the client", "", failed("remote-server-timeout"), "did not confirm the message: remote-server-timeout"},
		{"a message that comes back", `<message xmlns='jabber:client' type='error' from='ann@chat.example' id='m1'><error type='cancel'><not-acceptable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>`, failed("service-unavailable"), "the message came back: not-acceptable"},
		{"another message that comes back", `<message xmlns='jabber:client' type='error' from='ann@chat.example' id='m0'/>`, failed("service-unavailable"), ""},
		{"no answer", "", "", "did not confirm the message within 1m0s"},
		{"the end of the session", "", "end", "the session ended"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := openDesk(t, "ann@chat.example")
				d.say(`<presence xmlns='jabber:client' from='ann@chat.example/phone'/>`)
				result := make(chan error, 1)
				go func() { result <- d.send(t.Context(), "ann@chat.example", Message{"m1", "High tide at six < nine"}) }()
				if m := <-d.sent; m.XMLName.Local != "message" || m.To != "ann@chat.example/phone" || m.ID != "m1" || m.Type != "chat" || m.Body != "High tide at six < nine" {
					t.Fatalf("sent %+v", m)
				}
				ping := <-d.sent
				if ping.XMLName.Local != "iq" || ping.To != "ann@chat.example/phone" || ping.Ping == nil {
					t.Fatalf("sent %+v", ping)
				}
				if c.before != "" {
					d.say("%s", c.before)
				}
				switch c.answer {
				case "":
				case "end":
					_ = d.wire.Close()
				default:
					d.say(c.answer, ping.ID)
				}
				err := <-result
				if got := fmt.Sprint(err); c.want == "" && err != nil || !strings.Contains(got, c.want) {
					t.Errorf("the error is %q, want %q", got, c.want)
				}
			})
		})
	}
}

func TestNewsGoesToTheClientThatTheContactUses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openDesk(t, "ann@chat.example")
		at := func(want string) {
			t.Helper()
			to, ok := d.client("ann@chat.example")
			if got := to.Resourcepart(); got != want || ok != (want != "") {
				t.Errorf("news goes to %q, %v, want %q", got, ok, want)
			}
		}
		present := func(resource, priority string) {
			d.say(`<presence xmlns='jabber:client' from='ann@chat.example/%s'><priority>%s</priority></presence>`, resource, priority)
		}
		at("")
		present("watcher", "-1")
		at("")
		present("phone", "0")
		at("phone")
		present("desk", "0")
		at("desk")
		present("phone", "5")
		present("desk", "1")
		at("phone")
		d.say(`<presence xmlns='jabber:client' type='unavailable' from='ann@chat.example/phone'/>`)
		at("desk")
		for i := range 2 * maxDevices {
			present(fmt.Sprint("tab", i), "0")
		}
		if n := len(d.online["ann@chat.example"]); n != maxDevices {
			t.Errorf("%d clients are known, want %d", n, maxDevices)
		}
		d.say(`<presence xmlns='jabber:client' type='unavailable' from='ann@chat.example'/>`)
		at("")
		if err := d.send(t.Context(), "ann@chat.example", Message{"m1", "High tide"}); !errors.Is(err, ErrAway) {
			t.Errorf("a message to a contact who is away: %v", err)
		}
	})
}

func TestOnlyContactsAreHeard(t *testing.T) {
	say := func(from string) string {
		return `<message xmlns='jabber:client' from='` + from + `' type='chat'><body> list </body></message>`
	}
	for _, c := range []struct {
		name   string
		allow  []string
		stanza string
		want   []heardMessage
		sent   []string // types of presence
	}{
		{"an allowed account", []string{"Ann@Chat.example"}, say("ann@chat.example/phone"), []heardMessage{{"ann@chat.example", "list"}}, []string{"subscribe"}},
		{"asks an account for its presence once", []string{"ann@chat.example"}, say("ann@chat.example/phone") + say("ann@chat.example/phone"), []heardMessage{{"ann@chat.example", "list"}, {"ann@chat.example", "list"}}, []string{"subscribe"}},
		{"another account", []string{"ann@chat.example"}, say("eve@chat.example/phone"), nil, nil},
		{"a name that only looks like it", []string{"ann@chat.example"}, say("ann@chat.example.evil.example/phone") + say("xann@chat.example"), nil, nil},
		{"an account of the contact list", nil, say("old@chat.example/phone"), []heardMessage{{"old@chat.example", "list"}}, nil},
		{"an account that is not in the list", nil, say("eve@chat.example"), nil, nil},
		{"the list, if accounts are allowed", []string{"ann@chat.example"}, say("old@chat.example"), nil, nil},
		{"a room", []string{"ann@chat.example"}, strings.ReplaceAll(say("ann@chat.example/x"), "'chat'", "'groupchat'"), nil, nil},
		{"itself", []string{"news@chat.example"}, say("news@chat.example/y"), nil, nil},
		{"a message without text", []string{"ann@chat.example"}, `<message xmlns='jabber:client' from='ann@chat.example/x' type='chat'><active xmlns='http://jabber.org/protocol/chatstates'/></message>`, nil, nil},
		{"a request for its presence", []string{"ann@chat.example"}, `<presence xmlns='jabber:client' from='ann@chat.example' type='subscribe'/>`, nil, []string{"subscribed", "subscribe"}},
		{"a stranger's request for its presence", []string{"ann@chat.example"}, `<presence xmlns='jabber:client' from='eve@chat.example' type='subscribe'/>`, nil, nil},
		{"a stranger's change of the contact list", nil, `<iq xmlns='jabber:client' id='1' type='set' from='eve@chat.example/z'><query xmlns='jabber:iq:roster'><item jid='eve@chat.example' subscription='both'/></query></iq>` + say("eve@chat.example"), nil, []string{"error"}},
		{"the server's change of the contact list", nil, `<iq xmlns='jabber:client' id='1' type='set'><query xmlns='jabber:iq:roster'><item jid='eve@chat.example' subscription='both'/></query></iq>` + say("eve@chat.example"), []heardMessage{{"eve@chat.example", "list"}}, []string{"result"}},
		{"the server's removal from the contact list", nil, `<iq xmlns='jabber:client' id='1' type='set' from='news@chat.example'><query xmlns='jabber:iq:roster'><item jid='old@chat.example' subscription='remove'/></query></iq>` + say("old@chat.example"), nil, []string{"result"}},
		{"stanzas that say nonsense", []string{"ann@chat.example"}, `<presence xmlns='jabber:client' from='eve@chat.example/x'><priority>x</priority></presence><message xmlns='jabber:client' from='eve@chat.example/x' type='error' id='m1'><error type='cancel' by='@'/></message>` + say("ann@chat.example/phone"), []heardMessage{{"ann@chat.example", "list"}}, []string{"subscribe"}},
		{"a long message", []string{"ann@chat.example"}, strings.Replace(say("ann@chat.example"), "list", strings.Repeat("é", maxText), 1), []heardMessage{{"ann@chat.example", strings.Repeat("é", maxText/2)}}, []string{"subscribe"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := openDesk(t, c.allow...)
				d.roster["old@chat.example"] = "both"
				d.say("%s", c.stanza)
				if !slices.Equal(d.heard, c.want) {
					t.Errorf("heard %.200q, want %.200q", d.heard, c.want)
				}
				var sent []string
				for len(d.sent) > 0 {
					sent = append(sent, (<-d.sent).Type)
				}
				if !slices.Equal(sent, c.sent) {
					t.Errorf("sent %q, want %q", sent, c.sent)
				}
			})
		})
	}
}

func TestAStanzaIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openDesk(t, "ann@chat.example")
		for range 10 { // together they are larger than one may be
			d.say(`<message xmlns='jabber:client' from='eve@chat.example'><body>%s</body></message>`, strings.Repeat("x", maxStanza/5))
		}
		if d.alive.Err() != nil {
			t.Fatal("the session has ended")
		}
		_, err := fmt.Fprintf(d.wire, `<message xmlns='jabber:client' from='eve@chat.example'><body>%s</body>`, strings.Repeat("x", 2*maxStanza))
		synctest.Wait()
		if err == nil || d.alive.Err() == nil {
			t.Errorf("the session goes on after a stanza that is too large: %v", err)
		}
	})
}

// A login ends when its time is up, whatever the server does.
func TestLoginIsBounded(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer func() { _ = c.Close() }()
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	c, err := New(Config{JID: "news@chat.example", Password: func() (string, error) { return "x", nil }, Server: l.Addr().String(), Heard: func(_, _ string) {}, Came: func(string) {}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, _, err := c.login(ctx); err == nil || !strings.Contains(err.Error(), "chat.example") {
		t.Errorf("a login at a server that says nothing: %v", err)
	}
}

func TestAccounts(t *testing.T) {
	for text, want := range map[string]string{
		" Ann@Chat.Example ":    "ann@chat.example",
		"ann@chat.example/desk": "",
		"chat.example":          "",
		"":                      "",
		"ann@":                  "",
		"a b@chat.example":      "",
	} {
		if got, err := parseAccount(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%q is the account %q, %v, want %q", text, got, err, want)
		}
	}
}

// FuzzStanza gives stanzas of a server to a session: nothing panics, and only contacts are heard.
func FuzzStanza(f *testing.F) {
	for _, s := range []string{
		`<message from='ann@chat.example/a' type='chat' id='1'><body>list</body></message>`,
		`<message from='ann@chat.example/a' type='error' id='m1'><error type='cancel'><gone xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>`,
		`<presence from='ann@chat.example/a'><priority>7</priority></presence>`,
		`<presence from='eve@chat.example' type='subscribe'/>`,
		`<iq type='set' id='2'><query xmlns='jabber:iq:roster'><item jid='ann@chat.example' subscription='none'/></query></iq>`,
		`<iq type='get' id='3' from='chat.example'><ping xmlns='urn:xmpp:ping'/></iq>`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := &Client{account: jid.MustParse("news@chat.example"), allow: []string{"ann@chat.example"}}
		c.config.Heard = func(contact, text string) {
			if contact != "ann@chat.example" || text == "" || len(text) > maxText {
				t.Errorf("%q says %q", contact, text)
			}
		}
		c.config.Came = func(contact string) {
			if contact != "ann@chat.example" {
				t.Errorf("%q came", contact)
			}
		}
		s := newSession(t.Context(), c, nil, &boundedConn{})
		s.inFlight["m1"] = nil
		in := xml.NewDecoder(strings.NewReader(text))
		for {
			token, err := in.Token()
			if err != nil {
				return
			}
			start, ok := token.(xml.StartElement)
			if !ok {
				continue
			}
			answer, err := s.take(in, &start)
			if err != nil {
				continue // as HandleXMPP does
			}
			if answer != nil {
				if _, err := xmlstream.Copy(xmlstream.Discard(), answer); err != nil {
					t.Error(err)
				}
			}
		}
	})
}
