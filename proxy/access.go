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

// Several people may have accounts on the machine, and each of them reaches every port on
// localhost. So the pages and the interface for programs answer only the node's own user. Linux
// tells whose a connection is (caller.go). Elsewhere, and in containers, where it does not, a request
// shows the node's token, which lies in a file that its owner alone can read. Programs send it as a
// header. A browser gets a cookie instead, from an address that is good once and that only a
// program with the token can ask for.
//
// Feeds stay open, as feed readers know nothing but addresses, and so do /healthz, /readyz and
// /metrics, none of which names a feed.

const (
	// accessHeader carries the token in the requests of programs.
	accessHeader = "Tidings-Token"
	// enterPath is where a browser gets its cookie.
	loginPath = "/enter"
	// sessionFor is how long a cookie is good, unless the node restarts before. Afterwards the pages
	// ask for tidings open again. Browsers send a cookie to every port of a host (RFC 6265, section
	// 8.5), so a server of another user on this machine can receive it. A short session makes a
	// stolen cookie of little use.
	sessionTime = 12 * time.Hour
	// codeFor is how long an address of enterPath is good: time enough to copy it into a browser.
	codeTime = 10 * time.Minute
	// maxCodes bounds the addresses of enterPath that are not used yet. The oldest one gives way.
	maxCodes = 64
)

// A keeper knows who may use the pages and the interface for programs.
type authenticator struct {
	token      string
	sessionKey []byte // key that signs cookies, made at the start of the node; sessions end with it
	now        func() time.Time
	codes      *lru[string, time.Time] // codes that are not used yet, and until when they are good
}

func newAuthenticator(token string, now func() time.Time) authenticator {
	return authenticator{token, []byte(rand.Text()), now, newLRU[string, time.Time](maxCodes)}
}

// admits reports whether a request comes from the node's own user, or shows the token, or a cookie
// that stands for it.
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

// inSession reports whether this node made the value of a cookie since its start, and the value is
// still good.
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

// cookieName differs between the ports of a machine, as browsers keep one set of cookies for
// all of them, and several nodes may run there.
func cookieName(r *http.Request) string {
	host, _ := withoutPort(r.Host)
	return "tidings-" + strings.Trim(r.Host[len(host):], ":")
}

// An Entrance is the answer of open.
type OpenResponse struct {
	URL string `json:"url"` // opens the pages in a browser, once
}

// entrance makes an address at which a browser gets its cookie.
func (k authenticator) openURL(base string) string {
	code := rand.Text()
	k.codes.put(code, k.now().Add(codeTime), 1)
	return base + loginPath + "?code=" + code
}

// apiOpen gives a program an address for the browser of its user.
func (s *Server) apiOpen(w http.ResponseWriter, r *http.Request) (any, error) {
	if err := allow(w, r, http.MethodPost); err != nil {
		return nil, err
	}
	// Pages are not answered by the name of BaseURL.
	return OpenResponse{s.auth.openURL(scheme(r) + "://" + r.Host)}, nil
}

// Entrance is an address below base, such as "http://127.0.0.1:8190", that opens the pages in a
// browser once.
func (s *Server) OpenURL(base string) string { return s.auth.openURL(base) }

// enter gives a browser its cookie, and shows the start page.
func (s *Server) login(w http.ResponseWriter, r *http.Request) error {
	// Browsers may load an address twice. The second time, they have the cookie.
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
			// The bookmarklet leads here from other sites, and its page must know its user. Requests
			// of other sites are refused by the gate, whatever cookies they have.
			SameSite: http.SameSiteLaxMode,
		})
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Location", "/")
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// stranger is the error of a request without the token.
func unauthorized(r *http.Request) error {
	if strings.HasPrefix(r.URL.Path, apiPath) {
		return refuse(http.StatusUnauthorized, "the node's token is missing or wrong: send the content of the file api.token in the node's data directory in the header %s", accessHeader)
	}
	return refuse(http.StatusUnauthorized, "these pages are only for the user who runs the node: %s", howToOpen(r))
}

func howToOpen(r *http.Request) string {
	return fmt.Sprintf("run \"tidings open --http %s\" and open the address that it prints", oneLine(r.Host))
}

// isForeign reports whether another site's page caused a request, as far as the browser says
// so. Programs say nothing, and neither do browsers when a person types an address.
func isCrossSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "none", "same-origin":
		return false
	case "": // a program, or an old browser
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

// isFollowed reports whether a person is led to an address by a link, and sees it as a page of its own.
func isNavigation(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// ownReader refuses feeds to pages of other sites. They would see no feed, but how long the
// answer takes, or whether it is an error, tells whether somebody here subscribes to it. A link
// to an address with a token is followed, as a page that knows the token learns nothing by it. A
// link to an address without one is not: a page can open a window and watch how long it takes.
func checkFeedOrigin(r *http.Request, path string) error {
	hasToken := strings.HasPrefix(path, tokenPath) || strings.HasPrefix(path, keywordsPath)
	if !isCrossSite(r) || isNavigation(r) && hasToken {
		return nil
	}
	return refuse(http.StatusForbidden, "refused, because a page of another site asked for this feed: type the address yourself, or give it to a feed reader")
}
