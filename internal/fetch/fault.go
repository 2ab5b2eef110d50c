package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"tidings/internal/env"
)

// errorAnswer returns the answer to a job whose request failed, with the class of the error and a
// message for a person.
func (c *Client) errorAnswer(ctx context.Context, j *job, progress *progress, err error) env.Answer {
	if cause := context.Cause(ctx); errors.Is(cause, errSlow) || errors.Is(cause, errTotal) {
		err = cause
	}
	class, message := c.explain(j.target, progress.get(), err)
	return j.errorAnswer(class, message)
}

// explain returns the class and a message for an error at a stage of a request. net/http does not
// export some of its errors, which the stage then distinguishes.
func (c *Client) explain(to target, at stage, err error) (class, message string) {
	refused, isRefused := errors.AsType[refusal](err)
	lookup, isLookup := errors.AsType[*net.DNSError](err)
	timeout, isTimeout := errors.AsType[net.Error](err)
	isTimeout = isTimeout && timeout.Timeout()
	switch {
	case isRefused:
		return env.ErrRefused, explainRefusal(to, refused)
	case isLookup && lookup.IsNotFound:
		return env.ErrDNS, "no such host: " + to.host
	case isLookup && lookup.IsTimeout:
		return env.ErrDNS, "the name server did not answer in time for " + to.host
	case isLookup:
		return env.ErrDNS, "the name server failed for " + to.host
	case errors.Is(err, errTotal):
		return env.ErrTimeout, fmt.Sprintf("%v: more than %v", errTotal, totalTimeout)
	case errors.Is(err, errSlow):
		return env.ErrTimeout, errSlow.Error()
	case isTimeout:
		return env.ErrTimeout, timeoutMessage(to, at)
	case at == reading:
		return explainBody(err)
	case at == securing:
		return env.ErrTLS, explainTLS(to, err)
	case at == waiting:
		return explainAnswer(err)
	}
	return env.ErrDial, explainDial(to, err)
}

// explainRefusal names the address of the host, unless the host is that address.
func explainRefusal(to target, r refusal) string {
	if to.queue == queueOf(r.addr.String()) {
		return fmt.Sprintf("%s may not be polled: it %s", to.host, r.why)
	}
	return fmt.Sprintf("%s may not be polled: %v", to.host, r)
}

func timeoutMessage(to target, at stage) string {
	switch at {
	case securing:
		return fmt.Sprintf("%s did not finish the TLS handshake within %v", to.host, tlsTimeout)
	case waiting, reading:
		return fmt.Sprintf("%s did not answer within %v", to.host, headerTimeout)
	}
	return fmt.Sprintf("no connection to %s within %v", to.host, connectTimeout)
}

func explainDial(to target, err error) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return to.host + " refuses the connection"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route to " + to.host
	}
	return "no connection to " + to.host
}

func explainTLS(to target, err error) string {
	if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok && e.Reason == x509.Expired && e.Cert != nil {
		if time.Now().Before(e.Cert.NotBefore) {
			return fmt.Sprintf("the certificate of %s is not valid before %s", to.host, e.Cert.NotBefore.Format("2 January 2006"))
		}
		return fmt.Sprintf("the certificate of %s expired on %s", to.host, e.Cert.NotAfter.Format("2 January 2006"))
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return fmt.Sprintf("the certificate of %s is for another name", to.host)
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return fmt.Sprintf("the certificate of %s is signed by an authority that this machine does not trust", to.host)
	}
	if e, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Sprintf("the certificate of %s is not valid: %v", to.host, e.Err)
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "remote error" { // crypto/tls reports a received alert like this
		return fmt.Sprintf("%s refuses the TLS handshake: %v", to.host, e.Err)
	}
	return fmt.Sprintf("%s does not speak HTTPS at this port", to.host)
}

func explainAnswer(err error) (class, message string) {
	text := err.Error()
	switch {
	case strings.Contains(text, "headers exceeded"), strings.Contains(text, "header list larger"):
		return env.ErrTooLarge, fmt.Sprintf("the headers of the answer are larger than %d KiB", maxHeaders>>10)
	case strings.Contains(text, "malformed"), strings.Contains(text, "bad "), strings.Contains(text, "invalid "):
		return env.ErrBroken, "the web server's answer is not HTTP"
	}
	return env.ErrBroken, "the web server closed the connection without an answer"
}

func explainBody(err error) (class, message string) {
	_, large := errors.AsType[errLarge](err)
	switch {
	case large, errors.Is(err, errBomb):
		return env.ErrTooLarge, err.Error()
	case errors.Is(err, errDamaged):
		return env.ErrEncoding, errDamaged.Error()
	case errors.Is(err, errTruncated):
		return env.ErrBroken, err.Error()
	}
	return env.ErrBroken, errTruncated.Error()
}

// statusMessage explains a status without a document.
func statusMessage(status int) string {
	switch {
	case status == http.StatusOK, status == http.StatusIMUsed, status == http.StatusNotModified:
		return ""
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return fmt.Sprintf("may not be read by everybody (%d)", status)
	case status == http.StatusNotFound:
		return "does not exist, or may not be read (404)"
	case status == http.StatusGone:
		return "gone for good (410)"
	case status == http.StatusTooManyRequests:
		return "the web server asks for fewer requests (429)"
	case status == http.StatusServiceUnavailable:
		return "the web server is not available at the moment (503)"
	case status >= 500:
		return fmt.Sprintf("the web server failed (%d)", status)
	}
	return fmt.Sprintf("the web server answered %d, without a document", status)
}
