package notify

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/http/httptest"
	netmail "net/mail"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// A mailServer is an SMTP server that keeps what it takes.
type mailServer struct {
	address string
	roots   *x509.CertPool

	mu     sync.Mutex
	refuse *smtp.SMTPError // what it answers to a message
	mails  []string
	to     [][]string
	users  []string
}

// newMailServer serves until the test ends. The server speaks TLS from the first byte, or offers it, or knows it not.
func newMailServer(t *testing.T, encryption string) *mailServer {
	t.Helper()
	web := httptest.NewTLSServer(nil) // for its certificate
	t.Cleanup(web.Close)
	m := &mailServer{roots: x509.NewCertPool()}
	m.roots.AddCert(web.Certificate())
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &mailSession{server: m}, nil }))
	server.Domain, server.AllowInsecureAuth = "mail.ferry.example", encryption == "none"
	config := &tls.Config{Certificates: web.TLS.Certificates}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m.address = l.Addr().String()
	switch encryption {
	case "first":
		l = tls.NewListener(l, config)
	case "offered":
		server.TLSConfig = config
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() { _ = server.Close(); <-served })
	return m
}

type mailSession struct {
	server *mailServer
	user   string
	to     []string
}

func (s *mailSession) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *mailSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if password != "gang/way" {
			return errors.New("wrong password " + password)
		}
		s.user = user
		return nil
	}), nil
}

func (s *mailSession) Mail(string, *smtp.MailOptions) error { return nil }
func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = append(s.to, to)
	return nil
}
func (s *mailSession) Reset()        {}
func (s *mailSession) Logout() error { return nil }

func (s *mailSession) Data(r io.Reader) error {
	b, err := io.ReadAll(r)
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	if s.server.refuse != nil {
		return s.server.refuse
	}
	s.server.mails, s.server.to, s.server.users = append(s.server.mails, string(b)), append(s.server.to, s.to), append(s.server.users, s.user)
	return err
}

// openMail opens the target at an address, in which HOST stands for the server.
func (m *mailServer) open(t *testing.T, address string) *Target {
	t.Helper()
	s := New(Config{Control: func(string, string, syscall.RawConn) error { return nil }, AllowPrivate: true, Page: "http://127.0.0.1:8190/notify"})
	s.roots = m.roots
	target, err := s.Open(strings.Replace(address, "HOST", m.address, 1), "")
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// readMail returns the headers of an e-mail, its text and its HTML.
func readMail(t *testing.T, raw string) (h netmail.Header, text, html string) {
	t.Helper()
	m, err := netmail.ReadMessage(strings.NewReader(raw))
	if err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/alternative" {
		t.Fatalf("%s %v in %s", kind, err, raw)
	}
	parts := multipart.NewReader(m.Body, params["boundary"])
	var bodies []string
	for _, want := range []string{"text/plain", "text/html"} {
		p, err := parts.NextRawPart()
		if err != nil || !strings.HasPrefix(p.Header.Get("Content-Type"), want) || p.Header.Get("Content-Transfer-Encoding") != "quoted-printable" {
			t.Fatalf("%+v %v in %s", p, err, raw)
		}
		body, err := io.ReadAll(quotedprintable.NewReader(p))
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, string(body))
	}
	return m.Header, bodies[0], bodies[1]
}

func TestMail(t *testing.T) {
	for encryption, address := range map[string]string{
		"first":   "smtps://captain:gang%2Fway@HOST/?from=node@ferry.example&to=anna@ferry.example,Bob+%3Cbob%2Bnews@ferry.example%3E",
		"offered": "smtp://captain:gang%2Fway@HOST/?from=node@ferry.example&to=anna@ferry.example&to=bob%2Bnews@ferry.example",
		"none":    "smtp://captain:gang%2Fway@HOST/?from=node@ferry.example&to=anna@ferry.example,bob%2Bnews@ferry.example&tls=none",
	} {
		t.Run(encryption, func(t *testing.T) {
			m := newMailServer(t, encryption)
			target := m.open(t, address)
			if want := "://" + m.address + " to anna@ferry.example, bob+news@ferry.example"; !strings.HasSuffix(target.Shown, want) {
				t.Errorf("the target is %s", target.Shown)
			}
			one := pier("1")
			one.Title, one.HTML = "Pier 1 für <alle>\r\nBcc: x@y.example", "<p>The ferry leaves from <b>pier 1</b>.</p>"
			flood := []Message{one, pier("2"), {Title: "Bad link", Link: "javascript:alert(1)", Source: "S", Text: "<script>"}}
			for range 2 {
				if err := target.Send(t.Context(), []Message{one}); err != nil {
					t.Fatal(err)
				}
			}
			if err := target.Send(t.Context(), flood); err != nil {
				t.Fatal(err)
			}
			h, text, html := readMail(t, m.mails[0])
			subject, err := new(mime.WordDecoder).DecodeHeader(h.Get("Subject"))
			if err != nil || subject != "Ferry news: Pier 1 für <alle> Bcc: x@y.example" || h.Get("Bcc") != "" ||
				h.Get("From") != `"tidings" <node@ferry.example>` || h.Get("List-Unsubscribe") != "<http://127.0.0.1:8190/notify>" || h.Get("Auto-Submitted") != "auto-generated" {
				t.Errorf("the headers are %v, %q, %v", h, subject, err)
			}
			if fmt.Sprint(m.to[0]) != "[anna@ferry.example bob+news@ferry.example]" || m.users[0] != "captain" {
				t.Errorf("sent by %v to %v", m.users, m.to)
			}
			if !strings.Contains(text, "https://ferry.example/1\r\nThe ferry leaves from pier 1.\r\n") || !strings.Contains(text, "http://127.0.0.1:8190/notify") {
				t.Errorf("the text is %s", text)
			}
			if !strings.Contains(html, "<b>pier 1</b>") || !strings.Contains(html, `<a href="https://ferry.example/1">Pier 1 für &lt;alle&gt; Bcc: x@y.example</a>`) {
				t.Errorf("the HTML is %s", html)
			}
			again, _, _ := readMail(t, m.mails[1])
			if again.Get("Message-Id") != h.Get("Message-Id") || !strings.HasSuffix(h.Get("Message-Id"), "@ferry.example>") {
				t.Errorf("the ids are %s and %s", h.Get("Message-Id"), again.Get("Message-Id"))
			}
			other, text, html := readMail(t, m.mails[2])
			if other.Get("Message-Id") == h.Get("Message-Id") || other.Get("Subject") != "3 pieces of news" || !strings.Contains(text, "Pier 2") ||
				strings.Contains(html, "<script>") || strings.Contains(html, `"javascript`) || !strings.Contains(html, "Bad link") {
				t.Errorf("several: %v %s %s", other, text, html)
			}
		})
	}
}

func TestMailThatIsNotTaken(t *testing.T) {
	for _, c := range []struct {
		encryption, address string
		refuse              *smtp.SMTPError
		final               bool
		why                 string
	}{
		{"offered", "smtp://captain:wrong-gangway@HOST/?from=node@ferry.example&to=anna@ferry.example", nil, false, ""},
		{"offered", "smtp://captain:gang%2Fway@HOST/?from=node@ferry.example&to=anna@ferry.example", &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "later"}, false, "later"},
		{"offered", "smtp://captain:gang%2Fway@HOST/?from=node@ferry.example&to=anna@ferry.example", &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 6, 0}, Message: "spam"}, true, "spam"},
		{"none", "smtp://captain:gang%2Fway@HOST/?from=node@ferry.example&to=anna@ferry.example", nil, false, "STARTTLS"},
	} {
		m := newMailServer(t, c.encryption)
		m.refuse = c.refuse
		err := m.open(t, c.address).Send(t.Context(), []Message{pier("1")})
		f, ok := errors.AsType[*Failure](err)
		if !ok || f.Final != c.final || !strings.Contains(f.Text, c.why) || strings.Contains(f.Text, "gangway") || strings.Contains(f.Text, "gang/way") || len(m.mails) > 0 {
			t.Errorf("%s %+v: %+v, %d mails", c.address, c.refuse, err, len(m.mails))
		}
	}
	m := newMailServer(t, "offered")
	stranger := New(Config{Control: func(string, string, syscall.RawConn) error { return nil }})
	if target, err := stranger.Open("smtp://"+m.address+"/?from=node@ferry.example&to=anna@ferry.example", ""); err != nil || target.Send(t.Context(), []Message{pier("1")}) == nil {
		t.Errorf("a certificate of nobody is accepted, %v", err)
	}
	private := New(Config{Control: func(string, string, syscall.RawConn) error { return errors.New("not public") }})
	if target, err := private.Open("smtp://"+m.address+"/?from=node@ferry.example&to=anna@ferry.example", ""); err != nil {
		t.Error(err)
	} else if err := target.Send(t.Context(), []Message{pier("1")}); err == nil || !strings.Contains(err.Error(), "--allow-private-origins") {
		t.Errorf("at a private address: %v", err)
	}
}

func TestAddressesOfMail(t *testing.T) {
	strict := New(Config{Control: func(string, string, syscall.RawConn) error { return nil }})
	for _, c := range []struct{ address, why string }{
		{"smtp://captain:gangway@/?from=a@b.example&to=a@b.example", "no host"},
		{"smtp://captain:gangway@mail.example/?to=a@b.example", "no sender"},
		{"smtp://captain:gangway@mail.example/?from=gangway&to=a@b.example", "no sender"},
		{"smtp://captain:gangway@mail.example/?from=a@b.example", "no recipient"},
		{"smtp://captain:gangway@mail.example/?from=a@b.example&to=gangway", "no recipient"},
		{"smtp://captain:gangway@mail.example/?from=a@b.example&to=" + strings.Repeat("a@b.example,", maxRecipients) + "a@b.example", "more than 20"},
		{"smtp://captain:gangway@mail.example/?from=a@b.example&to=a@b.example&cc=gangway", "no others"},
		{"smtp://captain:gangway@mail.example/?from=a@b.example&to=a@b.example&tls=gangway", "tls"},
		{"smtps://captain:gangway@mail.example/?from=a@b.example&to=a@b.example&tls=none", "tls"},
		{"smtp://captain:gangway@mail.example/?from=a@b.example&to=a@b.example&tls=none", "encryption"},
		{"smtp://captain:gangway@mail.example:0/?from=a@b.example&to=a@b.example", "port"},
		{"smtp://captain:gangway@mail.example:65536/?from=a@b.example&to=a@b.example", "port"},
	} {
		if _, err := strict.Open(c.address, ""); err == nil || !strings.Contains(err.Error(), c.why) || strings.Contains(err.Error(), "gangway") {
			t.Errorf("%s: %v", c.address, err)
		}
	}
}

// A server that has taken a mail and ends the connection at once is not sent it again.
func TestAMailThatWasTakenIsDelivered(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		answer := func(text string) { _, _ = io.WriteString(conn, text+"\r\n") }
		answer("220 mail.ferry.example")
		inData := false
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			switch line := lines.Text(); {
			case inData && line == ".":
				answer("250 taken")
				return
			case inData:
			case strings.HasPrefix(line, "DATA"):
				inData = true
				answer("354 go on")
			default:
				answer("250 mail.ferry.example")
			}
		}
	}()
	m := &mailServer{address: l.Addr().String()}
	target := m.open(t, "smtp://HOST/?from=node@ferry.example&to=anna@ferry.example&tls=none")
	if err := target.Send(t.Context(), []Message{{ID: "msg_1", Title: "High tide"}}); err != nil {
		t.Error(err)
	}
	_ = l.Close()
	<-served
}
