package proxy

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Several people may have accounts on the machine, and each of them can reach every port of localhost. Therefore
// the pages and the API answer only the node's own user. On Linux, the system says which user opened a connection
// (connowner.go). Elsewhere, and in containers, a request must show the node's token, which is in a file that only
// its owner can read. Programs send the token as a header. A browser gets a cookie instead, from an address that
// works once and that only a program with the token can request.
//
// Feeds stay open, because feed readers know nothing but addresses. So do /healthz, /readyz and /metrics, which
// name no feed.

const (
	// accessHeader is the header in which programs send the token.
	accessHeader = "Tidings-Token"
	// loginPath is where a browser gets its cookie.
	loginPath = "/enter"
	// sessionTime is how long a cookie is valid, unless the node restarts earlier. Afterwards the pages ask for
	// tidings open again. Browsers send a cookie to every port of a host (RFC 6265, section 8.5), so a server of
	// another user on this machine can receive it. A short session makes a stolen cookie of little use.
	sessionTime = 12 * time.Hour
	// codeTime is how long an address of loginPath is valid: enough to copy it into a browser.
	codeTime = 10 * time.Minute
	// maxCodes bounds the unused addresses of loginPath. At the bound the oldest one becomes invalid.
	maxCodes = 64
)

// An authenticator decides which requests may use the pages and the API.
type authenticator struct {
	token      string
	sessionKey []byte // signs cookies; created at the start of the node, so sessions end with it
	now        func() time.Time
	codes      *lru[string, time.Time] // unused login codes, with the time until which each is valid
}

func newAuthenticator(token string, now func() time.Time) authenticator {
	return authenticator{token, []byte(rand.Text()), now, newLRU[string, time.Time](maxCodes)}
}

// isAuthorized reports whether a request comes from the node's own user, or shows the token or a valid cookie.
func (k authenticator) isAuthorized(r *http.Request) bool {
	if isOwnRequest(r.Context()) {
		return true
	}
	if subtle.ConstantTimeCompare([]byte(r.Header.Get(accessHeader)), []byte(k.token)) == 1 {
		return true
	}
	for _, c := range r.CookiesNamed(cookieName(r)) {
		if k.isValidSession(c.Value) {
			return true
		}
	}
	return false
}

// isValidSession reports whether this node made a cookie's value since its start, and the value has not expired.
func (k authenticator) isValidSession(value string) bool {
	until, mac, _ := strings.Cut(value, ".")
	seconds, err := strconv.ParseInt(until, 10, 64)
	if err != nil || !hmac.Equal([]byte(mac), []byte(k.sign(until))) {
		return false
	}
	return k.now().Before(time.Unix(seconds, 0))
}

func (k authenticator) sign(until string) string {
	h := hmac.New(sha256.New, k.sessionKey)
	h.Write([]byte(until))
	return hex.EncodeToString(h.Sum(nil))
}

// cookieName differs between the ports of a machine, because browsers keep one set of cookies for all ports of a
// host, and several nodes may run there.
func cookieName(r *http.Request) string {
	host, _ := withoutPort(r.Host)
	return "tidings-" + strings.Trim(r.Host[len(host):], ":")
}

// An OpenResponse is the answer of open.
type OpenResponse struct {
	URL string `json:"url"` // opens the pages in a browser, once
}

// openURL returns an address at which a browser gets its cookie.
func (k authenticator) openURL(base string) string {
	code := rand.Text()
	k.codes.put(code, k.now().Add(codeTime), 1)
	return base + loginPath + "?code=" + code
}

// apiOpen gives a program an address for the browser of its user.
func (s *Server) apiOpen(_ http.ResponseWriter, r *http.Request) (any, error) {
	// BaseURL is not used, because pages are not answered under its name.
	return OpenResponse{s.auth.openURL(scheme(r) + "://" + r.Host)}, nil
}

// OpenURL returns an address below base, such as "http://127.0.0.1:8190", that opens the pages in a browser once.
func (s *Server) OpenURL(base string) string { return s.auth.openURL(base) }

// login gives a browser its cookie, and redirects to the start page.
func (s *Server) login(w http.ResponseWriter, r *http.Request) error {
	// Browsers may load an address twice. The second time they already have the cookie.
	if !s.auth.isAuthorized(r) {
		code := r.URL.Query().Get("code")
		until, ok := s.auth.codes.take(code)
		if !ok || !s.auth.now().Before(until) {
			return refuse(http.StatusUnauthorized, "this address was used before, or is older than %v: %s", codeTime, howToOpen(r))
		}
		seconds := strconv.FormatInt(s.auth.now().Add(sessionTime).Unix(), 10)
		http.SetCookie(w, &http.Cookie{
			Name: cookieName(r), Value: seconds + "." + s.auth.sign(seconds), Path: "/", HttpOnly: true,
			MaxAge: int(sessionTime / time.Second),
			// The bookmarklet leads here from other sites, and its page must recognise its user. The gate refuses
			// other requests of other sites, whatever cookies they have.
			SameSite: http.SameSiteLaxMode,
		})
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Location", "/")
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// accessDenied returns the error for a request without the token.
func accessDenied(r *http.Request) error {
	if strings.HasPrefix(r.URL.Path, apiPath) {
		return refuse(http.StatusUnauthorized, "the node's token is missing or wrong: send the content of the file api.token in the node's data directory in the header %s", accessHeader)
	}
	return refuse(http.StatusUnauthorized, "these pages are only for the user who runs the node: %s", howToOpen(r))
}

func howToOpen(r *http.Request) string {
	return fmt.Sprintf("run \"tidings open --http %s\" and open the address that it prints", oneLine(r.Host))
}

// isCrossSite reports whether a page of another site caused a request, as far as the browser says so. Programs send
// no such headers, and neither do browsers when a person types an address.
func isCrossSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "none", "same-origin":
		return false
	case "": // a program or an old browser
	default:
		return true
	}
	for _, name := range []string{"Origin", "Referer"} {
		if from := r.Header.Get(name); from != "" {
			u, err := url.Parse(from)
			return err != nil || u.Host != r.Host
		}
	}
	return false
}

// isNavigation reports whether a browser follows a link to an address, and shows it as a page of its own.
func isNavigation(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// checkFeedOrigin refuses feeds to pages of other sites. They could not read the feed, but the response time, or an
// error, would tell whether somebody here subscribes to it. A link to an address with a token is followed, because
// a page that knows the token learns nothing new. A link without a token is not, because a page can open a window
// and measure how long that takes.
func checkFeedOrigin(r *http.Request, path string) error {
	hasToken := strings.HasPrefix(path, tokenPath) || strings.HasPrefix(path, keywordsPath)
	if !isCrossSite(r) || isNavigation(r) && hasToken {
		return nil
	}
	return refuse(http.StatusForbidden, "refused, because a page of another site asked for this feed: type the address yourself, or give it to a feed reader")
}
