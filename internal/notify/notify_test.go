package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// openSender returns a sender that may reach this machine.
func openSender() *Sender {
	return New(Config{Control: func(string, string, syscall.RawConn) error { return nil }, AllowPrivate: true, Agent: "tidings/test"})
}

func pier(n string) Message {
	return Message{ID: "msg_" + n, Time: time.Now(), Source: "Ferry news", Title: "Pier " + n, Link: "https://ferry.example/" + n, Text: "The ferry leaves from pier " + n + ".", JSON: []byte(`{"number":` + n + `}`)}
}

// A receiver is a web server that keeps the requests it gets.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request
	bodies   []string
	answer   func(http.ResponseWriter)
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.requests, r.bodies = append(r.requests, q), append(r.bodies, string(body))
		if r.answer != nil {
			r.answer(w)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// A receiver can check who has sent a message, as the standard for webhooks says, and knows one that comes again.
func TestWebhooksAreSigned(t *testing.T) {
	r := newReceiver(t)
	secret := NewSecret()
	if other := NewSecret(); other == secret || !strings.HasPrefix(secret, "whsec_") {
		t.Errorf("secrets %s, %s", secret, other)
	}
	target, err := openSender().Open(strings.Replace(r.URL, "//", "//captain:gangway@", 1)+"/hooks/a%2Fb?key=1", secret)
	if err != nil {
		t.Fatal(err)
	}
	if target.Shown != r.URL+"/…" || target.Batch != 1 {
		t.Errorf("the target is %+v", target)
	}
	if err := target.Send(t.Context(), []Message{pier("1")}); err != nil {
		t.Fatal(err)
	}
	q := r.requests[0]
	user, password, _ := q.BasicAuth()
	if q.Method != http.MethodPost || q.RequestURI != "/hooks/a%2Fb?key=1" || user != "captain" || password != "gangway" ||
		r.bodies[0] != `{"number":1}` || q.Header.Get("Content-Type") != "application/json" || q.Header.Get("User-Agent") != "tidings/test" {
		t.Errorf("the request is %s %s %v: %s", q.Method, q.RequestURI, q.Header, r.bodies[0])
	}
	seconds, err := strconv.ParseInt(q.Header.Get("Webhook-Timestamp"), 10, 64)
	if at := time.Unix(seconds, 0); err != nil || time.Since(at).Abs() > time.Minute || q.Header.Get("Webhook-Id") != "msg_1" {
		t.Errorf("the headers are %v", q.Header)
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || len(key) != secretBytes {
		t.Fatalf("the key has %d bytes, %v", len(key), err)
	}
	h := hmac.New(sha256.New, key)
	h.Write([]byte("msg_1." + q.Header.Get("Webhook-Timestamp") + "." + r.bodies[0]))
	if want := "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil)); q.Header.Get("Webhook-Signature") != want {
		t.Errorf("the signature is %s, want %s", q.Header.Get("Webhook-Signature"), want)
	}
}

// The example of the specification of Standard Webhooks.
func TestSignatureOfTheStandard(t *testing.T) {
	key, _ := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if got := sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`)); got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Error(got)
	}
}

func TestAnswersOfReceivers(t *testing.T) {
	for _, c := range []struct {
		status      int
		header      string // "Name: value"
		final, gone bool
		wait        time.Duration
		text        string
	}{
		{status: 200}, {status: 202}, {status: 204},
		{status: 400, final: true, text: "400 Bad Request"},
		{status: 401, text: "401"}, {status: 404, text: "404 Not Found"}, {status: 409, text: "409"},
		{status: 410, final: true, gone: true, text: "410 Gone"},
		{status: 413, final: true, text: "413"}, {status: 422, final: true, text: "422"},
		{status: 429, header: "Retry-After: 90", wait: 90 * time.Second, text: "429"},
		{status: 503, header: "Retry-After: soon", text: "503"}, {status: 503, header: "Retry-After: -1", text: "503"},
		{status: 503, header: "Retry-After: Sun, 06 Nov 1994 08:49:37 GMT", text: "503"},
		{status: 500, text: "500 Internal Server Error"},
		{status: 302, header: "Location: http://169.254.169.254/secret", text: "at 169.254.169.254"},
		{status: 308, header: "Location: /elsewhere", text: "redirects are not followed"},
		{status: 304, text: "304"}, {status: 599, text: "599"},
	} {
		r := newReceiver(t)
		r.answer = func(w http.ResponseWriter) {
			if name, value, ok := strings.Cut(c.header, ": "); ok {
				w.Header().Set(name, value)
			}
			w.WriteHeader(c.status)
		}
		target, err := openSender().Open(r.URL+"/secret-path", NewSecret())
		if err != nil {
			t.Fatal(err)
		}
		err = target.Send(t.Context(), []Message{pier("1")})
		f, failed := errors.AsType[*Failure](err)
		if !failed {
			f = &Failure{}
		}
		if failed != (c.text != "") || f.Final != c.final || f.Gone != c.gone || f.Wait != c.wait || !strings.Contains(f.Text, c.text) || strings.Contains(f.Text, "secret") {
			t.Errorf("%d %s: %+v", c.status, c.header, err)
		}
		if len(r.requests) != 1 {
			t.Errorf("%d: %d requests", c.status, len(r.requests))
		}
	}
}

// A receiver that does not answer is given up, and so is one at an address that the node may not reach. No error has a part of
// the address that may be secret.
func TestReceiversThatCannotBeReached(t *testing.T) {
	private := New(Config{Control: func(_, address string, _ syscall.RawConn) error {
		return errors.New(address + " is not a public address")
	}, AllowPrivate: true})
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	for _, c := range []struct {
		sender       *Sender
		address, why string
	}{
		{private, "http://127.0.0.1:8080/secret", "--allow-private-origins"},
		{private, "http://localhost:8080/secret?secret", "--allow-private-origins"},
		{openSender(), "http://" + closed.Addr().String() + "/secret", "refused"},
		{openSender(), "http://nowhere.invalid/secret", "nowhere.invalid"},
	} {
		target, err := c.sender.Open(c.address, NewSecret())
		if err != nil {
			t.Fatal(err)
		}
		err = target.Send(t.Context(), []Message{pier("1")})
		if f, ok := errors.AsType[*Failure](err); !ok || f.Final || !strings.Contains(f.Text, c.why) || strings.Contains(f.Text, "secret") {
			t.Errorf("%s: %v", c.address, err)
		}
	}
}

func TestASlowReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openSender()
		s.client.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		target, err := s.Open("https://slow.example/hook", NewSecret())
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if err := target.Send(t.Context(), []Message{pier("1")}); err == nil || time.Since(begin) != sendTime || !strings.Contains(err.Error(), "within 20s") {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAddressesOfTargets(t *testing.T) {
	strict := New(Config{Control: func(string, string, syscall.RawConn) error { return nil }})
	for _, c := range []struct{ address, why string }{
		{"", "no scheme"}, {"hooks.example/secret", "no scheme"}, {"//hooks.example/secret", "no scheme"},
		{"ftp://hooks.example/secret", "https://"}, {"javascript:secret", "https://"},
		{"http://hooks.example/secret", "needs https"}, {"https:///secret", "no host"}, {"https://:443/secret", "no host"},
		{"https://hooks.example/secret#part", "#"}, {"https://hooks.example:99999/secret", "port"}, {"ntfy://ntfy.example:0/topic", "port"}, {"https://hooks.example/se cret", "space"}, {"https://hooks.example/%secret", "not valid"}, {"https://hooks.example:secret/", "not valid"},
		{"https://hooks.example/sec\x00ret", "not valid"}, {"https://[::1/secret", "not valid"},
		{"https://hooks.example/" + strings.Repeat("secret", 500), "bytes"},
	} {
		_, err := strict.Open(c.address, NewSecret())
		if err == nil || !strings.Contains(err.Error(), c.why) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%.50q: %v, want %q", c.address, err, c.why)
		}
	}
	if _, err := strict.Open("https://hooks.example/", "whsec_no base64"); err == nil {
		t.Error("a secret that is no base64 is accepted")
	}
}

func FuzzAddress(f *testing.F) {
	for _, address := range []string{"https://hooks.example/a?b", "https://u:p@[::1]:80/%41", "http://x\x7f", "ntfy://u:p@h/t?scheme=http", "gotify://h/p/A23456789012345?extras={}", "discord://t@1?color=0x1", "slack://hook:A-B-C@w", "telegram://1:A@telegram?chats=1", "smtp://u:p@h:1/?from=a@b&to=a@b,c@d&tls=none", "matrix://:t@h/?rooms=!a,!b", "rocketchat://u@h:1/a/b/c", "mattermost://u@h/t/c", "pushover://shoutrrr:a@b/?devices=c"} {
		f.Add(address)
	}
	s := openSender()
	f.Fuzz(func(t *testing.T, address string) {
		target, err := s.Open(address, NewSecret())
		if err == nil && (target.Batch < 1 || target.Shown == "" || strings.ContainsAny(target.Shown, "\n\x1b")) {
			t.Errorf("%q: %+v", address, target)
		}
	})
}
