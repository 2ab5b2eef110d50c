package fetch

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"tidings/internal/env"
)

func TestUnreachableHostsAreReported(t *testing.T) {
	fakeNames(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	b := openReal(t, Config{AllowPrivate: true})
	for _, c := range []struct{ url, class, say string }{
		{"http://nowhere.example/", env.ErrDNS, "no such host: nowhere.example"},
		{"http://broken.example/", env.ErrDNS, "the name server failed for broken.example"},
		{"http://" + closed.Addr().String() + "/", env.ErrDial, "refuses the connection"},
	} {
		a := b.get(env.Request{URL: c.url})
		if a.Err != c.class || !strings.Contains(a.Message, c.say) || a.Private != (c.class == env.ErrDial) {
			t.Errorf("%s: %+v", c.url, a)
		}
	}
}

// certificate returns a certificate for 127.0.0.1 or another name, valid between two times relative to
// now.
func certificate(t *testing.T, name string, from, to time.Duration) (tls.Certificate, *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(from * time.Hour), NotAfter: time.Now().Add(to * time.Hour),
	}
	if ip := net.ParseIP(name); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(c)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestCertificatesAreChecked(t *testing.T) {
	const here = "127.0.0.1"
	for _, c := range []struct {
		name, host string
		from, to   time.Duration
		untrusted  bool
		old        bool // TLS 1.0 only
		class, say string
	}{
		{name: "good", host: here, from: -1, to: 1},
		{name: "expired", host: here, from: -48, to: -24, class: env.ErrTLS, say: "expired on " + time.Now().Add(-24*time.Hour).Format("2 January 2006")},
		{name: "not valid yet", host: here, from: 24, to: 48, class: env.ErrTLS, say: "not valid before "},
		{name: "for another", host: "other.example", from: -1, to: 1, class: env.ErrTLS, say: "for another name"},
		{name: "of nobody", host: here, from: -1, to: 1, untrusted: true, class: env.ErrTLS, say: "this machine does not trust"},
		{name: "too old", host: here, from: -1, to: 1, old: true, class: env.ErrTLS, say: "handshake"},
	} {
		cert, pool := certificate(t, c.host, c.from, c.to)
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, r.Proto+" "+r.RequestURI)
		}))
		s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
		if c.old {
			s.TLS.MaxVersion = tls.VersionTLS10
		}
		s.EnableHTTP2 = true
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.StartTLS()
		b := openReal(t, Config{AllowPrivate: true})
		b.any.TLSClientConfig = &tls.Config{}
		if b.any.TLSClientConfig.RootCAs = pool; c.untrusted {
			b.any.TLSClientConfig.RootCAs = x509.NewCertPool()
		}
		a := b.get(env.Request{URL: s.URL + "/a|b"})
		if a.Err != c.class || !strings.Contains(a.Message, c.say) || c.class == "" && string(a.Body) != "HTTP/2.0 /a|b" {
			t.Errorf("%s: %+v %s", c.name, a, a.Body)
		}
		b.close()
		s.Close()
	}
}

func TestPortsWithoutHTTPSAreReported(t *testing.T) {
	port, _ := canary(t)
	b := openReal(t, Config{AllowPrivate: true})
	if a := b.get(env.Request{URL: "https://127.0.0.1:" + port + "/"}); a.Err != env.ErrTLS || !strings.Contains(a.Message, "does not speak HTTPS") {
		t.Errorf("%+v", a)
	}
}

// A redirect from HTTPS to HTTP is followed by HTTPS. If that does not work, the words name the address
// that the subscriber may choose instead. Nothing that has content goes over HTTP.
func TestHTTPSDoesNotLeadToHTTP(t *testing.T) {
	port, connections := canary(t)
	cert, pool := certificate(t, "127.0.0.1", -1, 1)
	var second *httptest.Server
	secure := func(h http.HandlerFunc) *httptest.Server {
		s := httptest.NewUnstartedServer(h)
		s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
		s.StartTLS()
		t.Cleanup(s.Close)
		return s
	}
	second = secure(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/Name":
			io.WriteString(w, "<rss/>")
		case "/limited":
			w.WriteHeader(http.StatusTooManyRequests)
		case "/back":
			http.Redirect(w, r, "http://"+r.Host+"/back", http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	})
	plain := "http" + strings.TrimPrefix(second.URL, "https")
	first := secure(func(w http.ResponseWriter, r *http.Request) {
		to := plain + r.URL.Path
		if r.URL.Path == "/only" {
			to = "http://127.0.0.1:" + port + "/only"
		}
		http.Redirect(w, r, to, http.StatusMovedPermanently)
	})
	b := openReal(t, Config{AllowPrivate: true})
	b.any.TLSClientConfig = &tls.Config{RootCAs: pool}
	if a := b.get(env.Request{URL: first.URL + "/Name"}); a.Status != 200 || a.FinalURL != second.URL+"/Name" || !a.Moved {
		t.Errorf("%+v", a)
	}
	for path, to := range map[string]string{"/gone": plain + "/gone", "/back": plain + "/back", "/only": "http://127.0.0.1:" + port + "/only"} {
		a := b.get(env.Request{URL: first.URL + path})
		if a.Err != env.ErrRedirect || !strings.HasSuffix(a.Message, "subscribe to "+to) {
			t.Errorf("%s: %+v", path, a)
		}
	}
	if a := b.get(env.Request{URL: first.URL + "/limited"}); a.Status != http.StatusTooManyRequests {
		t.Errorf("%+v", a)
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections to the server without HTTPS; want one handshake", n)
	}
}

func TestErrorsHaveAClassAndAMessage(t *testing.T) {
	c := New(Config{}, nil)
	late := &net.OpError{Op: "dial", Err: context.DeadlineExceeded}
	for _, f := range []struct {
		at         stage
		err        error
		class, say string
	}{
		{resolving, &net.DNSError{IsNotFound: true}, env.ErrDNS, "no such host"},
		{resolving, &net.DNSError{IsTimeout: true}, env.ErrDNS, "in time"},
		{resolving, &net.DNSError{}, env.ErrDNS, "failed"},
		{connecting, late, env.ErrTimeout, "no connection to a.example within 5s"},
		{securing, late, env.ErrTimeout, "TLS handshake within 5s"},
		{waiting, late, env.ErrTimeout, "answer within 10s"},
		{connecting, os.NewSyscallError("connect", syscall.ECONNREFUSED), env.ErrDial, "refuses"},
		{connecting, os.NewSyscallError("connect", syscall.ENETUNREACH), env.ErrDial, "no route"},
		{connecting, os.NewSyscallError("connect", syscall.EHOSTUNREACH), env.ErrDial, "no route"},
		{connecting, io.EOF, env.ErrDial, "no connection"},
		{securing, &tls.CertificateVerificationError{Err: errors.New("odd")}, env.ErrTLS, "not valid: odd"},
		{securing, io.EOF, env.ErrTLS, "HTTPS"},
		{waiting, io.EOF, env.ErrBroken, "closed"},
		{waiting, syscall.ECONNRESET, env.ErrBroken, "closed"},
		{waiting, errors.New("malformed HTTP version"), env.ErrBroken, "not HTTP"},
		{waiting, errors.New("stream error: REFUSED_STREAM"), env.ErrBroken, "closed"},
		{reading, syscall.ECONNRESET, env.ErrBroken, "ended too early"},
	} {
		class, words := c.explain(newTarget("http://a.example/"), f.at, f.err)
		if class != f.class || !strings.Contains(words, f.say) {
			t.Errorf("%v at %d: %q %q", f.err, f.at, class, words)
		}
	}
}
