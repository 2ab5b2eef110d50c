package fetch

import (
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"tidings/internal/env"
	"tidings/internal/feed"
)

// maxRedirects is how many redirects are followed. Browsers follow twenty, and a feed that needs more
// than three is broken.
const maxRedirects = 5

// maxCookies bounds the cookies that are sent back, in bytes. Web servers refuse requests with headers
// above 8 KiB. Larger cookies are not sent.
const maxCookies = 4 << 10

func isRedirect(status int) bool {
	return slices.Contains([]int{301, 302, 303, 307, 308}, status)
}

// redirect resolves the target of a redirect and checks whether it may be followed. From HTTPS it never
// leads to HTTP, where anybody on the way could answer: the same address is tried by HTTPS.
func (j *job) redirect(resp *http.Response) (*target, env.Answer) {
	status, location := resp.StatusCode, resp.Header.Get("Location")
	j.moved = j.moved && (status == http.StatusMovedPermanently || status == http.StatusPermanentRedirect)
	j.public = j.public || !j.private
	j.hops = append(j.hops, j.visit(j.target))
	j.keepCookies(resp)
	j.plain = ""
	address, err := feed.Resolve(j.target.url, location)
	if rest, plain := strings.CutPrefix(address, "http:"); err == nil && plain && j.target.scheme == "https" {
		j.plain = address
		address, err = feed.Canonical("https:" + rest)
	}
	switch {
	case j.request.Form != "" && status != http.StatusTemporaryRedirect && status != http.StatusPermanentRedirect:
		return nil, j.errorAnswer(env.ErrRedirect, fmt.Sprintf("the web server answered a form with the redirect %d; only 307 and 308 ask for the form at another address", status))
	case location == "":
		return nil, j.errorAnswer(env.ErrRedirect, fmt.Sprintf("the web server answered %d, a redirect without an address", status))
	case err != nil:
		return nil, j.errorAnswer(env.ErrURL, "the web server redirects to an address that may not be polled: "+err.Error())
	}
	to := newTarget(address)
	switch {
	case slices.Contains(j.hops, j.visit(to)):
		return nil, j.errorAnswer(env.ErrRedirect, "the web server redirects in a circle"+j.despiteCookies())
	case len(j.hops) > maxRedirects:
		return nil, j.errorAnswer(env.ErrRedirect, fmt.Sprintf("the web server redirects more than %d times%s", maxRedirects, j.despiteCookies()))
	}
	if to.scheme != j.target.scheme || to.host != j.target.host {
		// The headers may hold a password. Another origin must not get it, and must not choose either which
		// document is fetched with it by redirecting back.
		j.request.Headers = nil
	}
	return &to, env.Answer{}
}

// visit identifies a request among those of a job. Many web servers first set a cookie and redirect to
// the same address, so that a request with other cookies is another request.
func (j *job) visit(to target) string { return to.url + " " + j.cookiesFor(to) }

// keepCookies keeps the cookies of a response for the other requests of the same fetch. They are
// forgotten with the job, so that nobody can recognise the node at its next poll.
func (j *job) keepCookies(resp *http.Response) {
	cookies := resp.Cookies()
	if len(cookies) == 0 {
		return
	}
	if j.jar == nil {
		j.jar, _ = cookiejar.New(&cookiejar.Options{PublicSuffixList: publicsuffix.List}) // never fails
	}
	j.jar.SetCookies(j.target.siteURL(), cookies)
}

// cookiesFor returns the Cookie header for a request of this job, or "" if there are no cookies.
func (j *job) cookiesFor(to target) string {
	if j.jar == nil {
		return ""
	}
	var r http.Request
	r.Header = http.Header{}
	for _, cookie := range j.jar.Cookies(to.siteURL()) {
		r.AddCookie(cookie)
	}
	if header := r.Header.Get("Cookie"); len(header) <= maxCookies {
		return header
	}
	return ""
}

// despiteCookies ends the description of redirects that lead nowhere.
func (j *job) despiteCookies() string {
	if j.jar == nil {
		return ""
	}
	return ", although its cookies were sent back"
}

// siteURL returns the address as cookies see it: with its path byte for byte.
func (t target) siteURL() *url.URL {
	path, _, _ := strings.Cut(t.rest, "?")
	return &url.URL{Scheme: t.scheme, Host: t.host, Path: path}
}

// onlyPlain returns the answer to a job that was last redirected from HTTPS to HTTP, if HTTPS does not work
// there. That a document is gone for good is believed. It names the address, because only the subscriber can decide to trust it.
func (j *job) onlyPlain(a env.Answer) env.Answer {
	works := a.Err == "" && (a.Status < 400 || a.Status == http.StatusGone || a.Status == http.StatusTooManyRequests || a.Status >= 500)
	if j.plain == "" || works || a.Err == env.ErrBusy {
		return a
	}
	return j.errorAnswer(env.ErrRedirect, fmt.Sprintf("the web server redirects from HTTPS to %s, where anybody on the way could answer, "+
		"and HTTPS does not work there (%s); to accept that, subscribe to %s", j.plain, a.Message, j.plain))
}
