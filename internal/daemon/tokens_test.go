package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/feedtree"
	"tidings/internal/feed"
	"tidings/proxy"
)

// A visit is a browser or a program on the Internet that reaches a node through a reverse proxy.
type visit struct {
	m       *member
	cookies []*http.Cookie
	header  []string // names and values that it sends besides
}

// do sends a request, with form if it is not nil, and returns the answer and its text.
func (v *visit) do(t *testing.T, method, path string, form url.Values) (*http.Response, string) {
	t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r := httptest.NewRequestWithContext(t.Context(), method, path, body)
	r.Host, r.RemoteAddr = "feeds.example.org", "127.0.0.1:4711"
	r.Header.Set("X-Forwarded-For", "192.0.2.9")
	r.Header.Set("X-Forwarded-Proto", "https")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(v.header); i += 2 {
		r.Header.Set(v.header[i], v.header[i+1])
	}
	for _, c := range v.cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	v.m.server.ServeHTTP(w, r)
	answer := w.Result()
	for _, c := range answer.Cookies() {
		v.cookies = slices.DeleteFunc(v.cookies, func(old *http.Cookie) bool { return old.Name == c.Name })
		if c.MaxAge >= 0 {
			v.cookies = append(v.cookies, c)
		}
	}
	return answer, w.Body.String()
}

// behindProxy is the configuration of a node whose page of searches others reach through a reverse proxy.
func behindProxy(t *testing.T, name string) Config {
	c := founding(t, name)
	c.HTTP, c.BaseURL, c.NoIcons = "127.0.0.1:0", "https://feeds.example.org", true
	trusted, err := proxy.ParseProxy("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	c.TrustedProxies = append(c.TrustedProxies, trusted)
	return c
}

// token creates a token.
func (m *member) token(t *testing.T, q proxy.SearchToken) proxy.SearchToken {
	t.Helper()
	made, err := m.tokens.CreateToken(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// searches returns how many searches a token has; -1: it is not valid.
func (m *member) searches(t *testing.T, text string) int {
	t.Helper()
	s := m.tokens.Searcher(text)
	if s == nil {
		return -1
	}
	token, listed, err := s.Searches(t.Context())
	if err != nil || token.Searches != len(listed) {
		t.Errorf("%d searches, and %d are listed, %v", token.Searches, len(listed), err)
	}
	return token.Searches
}

// A token makes searches of its own, up to its quota, and sees and ends no others. Whose they are survives a restart.
func TestTokensHaveSearchesOfTheirOwn(t *testing.T) {
	t.Parallel()
	c := behindProxy(t, "tokens")
	m := running(t, c)
	m.awaitMembers(t, 1)
	first, second := m.token(t, proxy.SearchToken{Name: "first", MaxSearches: 2}), m.token(t, proxy.SearchToken{})
	if len(first.Token) < 26 || first.Token == second.Token || second.MaxSearches != defaultTokenSearches {
		t.Errorf("tokens are %+v and %+v", first, second)
	}
	own, err := m.Watch(t.Context(), "solar battery")
	if err != nil {
		t.Fatal(err)
	}
	one, other := m.tokens.Searcher(first.Token), m.tokens.Searcher(second.Token)
	made := map[uint32]bool{own.Number: true}
	for i, s := range []proxy.Searcher{one, other, one} {
		w, err := s.Watch(t.Context(), []string{"battery solar", "solar AND battery", "wind"}[i])
		if err != nil || made[w.Number] {
			t.Fatalf("search %d is %+v, %v", i, w, err)
		}
		made[w.Number] = true
		if again, err := s.Watch(t.Context(), w.Query); err != nil || again.Number != w.Number {
			t.Errorf("the same search again is %+v, %v", again, err)
		}
	}
	if _, err := one.Watch(t.Context(), "moon"); !errors.Is(err, proxy.ErrQuota) {
		t.Errorf("a third search of two: %v", err)
	}
	for _, number := range []uint32{own.Number, own.Number + 2, 1 << 30} {
		if err := one.Unwatch(t.Context(), number); !errors.Is(err, proxy.ErrNoSubscription) {
			t.Errorf("a token ends the search %d of somebody else: %v", number, err)
		}
	}
	if same, err := m.SameWatches(t.Context(), "solar battery"); err != nil || len(same) != 1 || same[0].Number != own.Number {
		t.Errorf("the user has the searches %+v, %v", same, err)
	}
	if err := m.Unwatch(t.Context(), own.Number); err != nil {
		t.Error(err)
	}
	m.stop(t)

	m = running(t, c)
	m.awaitMembers(t, 1)
	if a, b := m.searches(t, first.Token), m.searches(t, second.Token); a != 2 || b != 1 {
		t.Errorf("after a restart the tokens have %d and %d searches", a, b)
	}
	listed, err := m.tokens.Tokens(t.Context())
	if err != nil || len(listed) != 2 || listed[0].Token != "" {
		t.Errorf("tokens are %+v, %v", listed, err)
	}
	raw, err := os.ReadFile(c.path(tokensFile))
	if err != nil || strings.Contains(string(raw), first.Token) {
		t.Errorf("the file has the text of a token, or %v", err)
	}
	status, err := m.Status(t.Context())
	if n := status.SearchTokens; err != nil || n == nil || n.Tokens != 2 || n.Searches != 3 {
		t.Errorf("status tells of %+v, %v", n, err)
	}
	if err := m.tokens.Searcher(first.Token).Unwatch(t.Context(), own.Number+1); err != nil || m.searches(t, first.Token) != 1 {
		t.Errorf("a search does not end: %v", err)
	}
}

// Each refusal says why.
func TestTokensThatAreNotMade(t *testing.T) {
	t.Parallel()
	c := founding(t, "notokens")
	c.HTTP = "127.0.0.1:0"
	m := running(t, c)
	m.awaitMembers(t, 1)
	m.token(t, proxy.SearchToken{Name: "taken"})
	past := time.Now().Add(-time.Second)
	for _, r := range []struct {
		q    proxy.SearchToken
		kind error
		says string
	}{
		{proxy.SearchToken{MaxSearches: -1}, proxy.ErrToken, "give 1 to 1000"},
		{proxy.SearchToken{MaxSearches: maxTokenSearches + 1}, proxy.ErrToken, "give 1 to 1000"},
		{proxy.SearchToken{Expires: &past}, proxy.ErrToken, "give a later time"},
		{proxy.SearchToken{Name: "taken"}, proxy.ErrToken, "give another name"},
		{proxy.SearchToken{Name: "a\x1bb"}, proxy.ErrToken, "signs that do not print"},
		{proxy.SearchToken{Name: strings.Repeat("n", maxTokenName+1)}, proxy.ErrToken, "more than 100 bytes"},
	} {
		if made, err := m.tokens.CreateToken(t.Context(), r.q); !errors.Is(err, r.kind) || !strings.Contains(err.Error(), r.says) {
			t.Errorf("%+v: %+v, %v", r.q, made, err)
		}
	}
	for _, name := range []string{"", "nobody", "00000000", "0123abcd"} {
		if _, err := m.tokens.RevokeToken(t.Context(), name); !errors.Is(err, proxy.ErrNoToken) {
			t.Errorf("revoke %q: %v", name, err)
		}
	}
	// A token that cannot be stored is not valid.
	m.tokens.path = filepath.Join(c.Dir, "nowhere", tokensFile)
	if made, err := m.tokens.CreateToken(t.Context(), proxy.SearchToken{}); err == nil || len(m.tokens.byID) != 1 || len(m.tokens.byHash) != 1 {
		t.Errorf("without a disk the token %+v is made, %v", made, err)
	}
	if _, err := m.tokens.RevokeToken(t.Context(), "taken"); err == nil || !m.tokens.HasTokens() {
		t.Errorf("without a disk the token is revoked, %v", err)
	}
}

// The limits of a token are changed while it is in use, also below what it has, and stay after a restart. What is not named stays, a
// change that is refused changes nothing, and a token that is not valid has no limits to change.
func TestTheLimitsOfATokenAreChanged(t *testing.T) {
	t.Parallel()
	c := behindProxy(t, "limits")
	m := running(t, c)
	m.awaitMembers(t, 1)
	token := m.token(t, proxy.SearchToken{Name: "reading group", MaxSearches: 2})
	searcher := m.tokens.Searcher(token.Token)
	watch := func(query string, want error) {
		t.Helper()
		if _, err := searcher.Watch(t.Context(), query); !errors.Is(err, want) {
			t.Errorf("search for %s: %v, want %v", query, err, want)
		}
	}
	watch("solar", nil)
	watch("wind", nil)
	watch("tide", proxy.ErrQuota)
	later, past := time.Now().Add(time.Hour).UTC().Truncate(time.Second), time.Now().Add(-time.Hour)
	soon := time.Now().Add(100 * time.Millisecond)
	over := m.token(t, proxy.SearchToken{Name: "over", Expires: &soon})
	within(t, awaitTimeout, "the token has expired", func() error {
		if m.tokens.Searcher(over.Token) != nil {
			return errors.New("it is valid")
		}
		return nil
	})
	for _, step := range []struct {
		q       proxy.TokenLimits
		most    int // searches after it
		expires *time.Time
		fail    error
	}{
		{q: proxy.TokenLimits{ID: "reading group", MaxSearches: new(3)}, most: 3},
		{q: proxy.TokenLimits{ID: token.ID, Expires: &later}, most: 3, expires: &later},
		{q: proxy.TokenLimits{ID: token.ID, NeverExpires: true}, most: 3},
		{q: proxy.TokenLimits{ID: token.ID, NeverExpires: true, Expires: &later}, fail: proxy.ErrToken},
		{q: proxy.TokenLimits{ID: token.ID, Expires: &later}, most: 3, expires: &later},
		{q: proxy.TokenLimits{ID: token.ID, MaxSearches: new(0)}, fail: proxy.ErrToken},
		{q: proxy.TokenLimits{ID: token.ID, MaxSearches: new(maxTokenSearches + 1)}, fail: proxy.ErrToken},
		{q: proxy.TokenLimits{ID: token.ID, MaxSearches: new(9), Expires: &past}, fail: proxy.ErrToken},
		{q: proxy.TokenLimits{ID: "nobody", MaxSearches: new(9)}, fail: proxy.ErrNoToken},
		{q: proxy.TokenLimits{MaxSearches: new(9)}, fail: proxy.ErrNoToken},
		{q: proxy.TokenLimits{ID: over.ID, MaxSearches: new(9), Expires: &later}, fail: proxy.ErrNoToken},
	} {
		got, err := m.tokens.ChangeToken(t.Context(), step.q)
		if !errors.Is(err, step.fail) || err != nil && !strings.Contains(err.Error(), fmt.Sprintf("%q", step.q.ID)) {
			t.Errorf("%+v: %v", step.q, err)
		}
		if err == nil && (got.ID != token.ID || got.Searches != 2 || got.MaxSearches != step.most || (got.Expires == nil) != (step.expires == nil) || got.Expires != nil && !got.Expires.Equal(*step.expires)) {
			t.Errorf("%+v: %+v", step.q, got)
		}
	}
	watch("tide", nil)
	watch("rain", proxy.ErrQuota)
	if _, err := m.tokens.ChangeToken(t.Context(), proxy.TokenLimits{ID: token.ID, MaxSearches: new(1)}); err != nil {
		t.Fatal(err)
	}
	watch("rain", proxy.ErrQuota)
	watch("wind", nil) // it has this one
	path := m.tokens.path
	m.tokens.path = filepath.Join(c.Dir, "nowhere", tokensFile)
	if got, err := m.tokens.ChangeToken(t.Context(), proxy.TokenLimits{ID: token.ID, MaxSearches: new(9)}); err == nil {
		t.Errorf("without a disk the token is changed: %+v", got)
	}
	watch("rain", proxy.ErrQuota)
	m.tokens.path = path
	m.stop(t)
	c.Found = nil
	m = running(t, c)
	all, err := m.tokens.Tokens(t.Context())
	if err != nil || len(all) != 1 || all[0].ID != token.ID || all[0].MaxSearches != 1 || all[0].Searches != 3 || all[0].Expires == nil || !all[0].Expires.Equal(later) {
		t.Errorf("after a restart: %+v, %v", all, err)
	}
}

// A token that is revoked, or has expired, opens nothing from that moment on, its searches end, and the node forgets it. The
// searches of others go on. No search that is made meanwhile remains.
func TestTokensEnd(t *testing.T) {
	t.Parallel()
	c := behindProxy(t, "ending")
	m := opened(t, c)
	var clock sync.Mutex
	now := time.Now()
	m.tokens.now = func() time.Time {
		clock.Lock()
		defer clock.Unlock()
		return now
	}
	m.start(t)
	m.awaitMembers(t, 1)
	later := now.Add(time.Hour)
	stays, revoked, expires := m.token(t, proxy.SearchToken{Name: "stays"}), m.token(t, proxy.SearchToken{Name: "goes"}), m.token(t, proxy.SearchToken{Expires: &later})
	for _, token := range []proxy.SearchToken{stays, revoked, expires} {
		for i := range 3 {
			if _, err := m.tokens.Searcher(token.Token).Watch(t.Context(), fmt.Sprintf("word%d", i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	// It is revoked while it makes searches.
	searcher := m.tokens.Searcher(revoked.Token)
	var busy sync.WaitGroup
	begun := make(chan struct{}, 1000)
	for i := range 4 {
		busy.Go(func() {
			for j := 0; ; j++ {
				_, err := searcher.Watch(t.Context(), fmt.Sprintf("more%d and%d", i, j))
				if errors.Is(err, proxy.ErrNoToken) {
					return
				}
				if err != nil && !errors.Is(err, proxy.ErrQuota) {
					t.Error(err)
					return
				}
				select {
				case begun <- struct{}{}:
				default:
				}
			}
		})
	}
	for range 5 {
		<-begun
	}
	ended, err := m.tokens.RevokeToken(t.Context(), "goes")
	if err != nil || ended.Searches < 8 {
		t.Errorf("%d searches have ended, %v", ended.Searches, err)
	}
	busy.Wait()
	if n := m.CountWatches(); n != 6 {
		t.Errorf("%d searches are left of two tokens with 3 each", n)
	}
	if m.tokens.Searcher(revoked.Token) != nil || m.searches(t, stays.Token) != 3 || m.searches(t, expires.Token) != 3 {
		t.Error("the wrong token was revoked")
	}
	clock.Lock()
	now = later
	clock.Unlock()
	if m.tokens.Searcher(expires.Token) != nil {
		t.Error("a token opens its searches after its time")
	}
	if err := m.tokens.sweep(t.Context()); err != nil || m.CountWatches() != 3 {
		t.Errorf("%d searches are left of one token with 3, %v", m.CountWatches(), err)
	}
	raw, err := os.ReadFile(c.path(tokensFile))
	if err != nil || strings.Contains(string(raw), revoked.ID) || strings.Contains(string(raw), expires.ID) || !strings.Contains(string(raw), stays.ID) {
		t.Errorf("the file is %s, %v", raw, err)
	}

	// The node stops after a token was revoked, and before its searches have ended.
	if _, err := m.tokens.RevokeToken(cancelled(t), "stays"); err == nil {
		t.Error("searches end although nobody waits for them")
	}
	m.stop(t)
	m = running(t, c)
	m.awaitMembers(t, 1)
	within(t, awaitTimeout, "no searches", func() error {
		if n := m.CountWatches(); n != 0 || m.tokens.Searcher(stays.Token) != nil {
			return fmt.Errorf("%d are left", n)
		}
		return nil
	})
}

// cancelled returns a context that has ended.
func cancelled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// A damaged file of tokens is set aside and reported. No search is lost; the doctor names those without a token, and they can
// be ended.
func TestDamagedFileOfTokens(t *testing.T) {
	t.Parallel()
	c := founding(t, "damagedtokens")
	c.HTTP = "127.0.0.1:0"
	m := running(t, c)
	m.awaitMembers(t, 1)
	token := m.token(t, proxy.SearchToken{})
	if _, err := m.tokens.Searcher(token.Token).Watch(t.Context(), "sun"); err != nil {
		t.Fatal(err)
	}
	m.stop(t)
	good, err := os.ReadFile(c.path(tokensFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.path(tokensFile), good[:len(good)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	says := func(m *member, text string) bool {
		t.Helper()
		findings, err := m.Doctor(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(findings, func(f proxy.Finding) bool { return strings.Contains(f.What.String()+": "+f.Do.String(), text) })
	}
	m = running(t, c)
	m.awaitMembers(t, 1)
	within(t, awaitTimeout, "the search of the lost token", func() error { // searches are read after the start
		if m.CountWatches() != 1 || m.tokens.Searcher(token.Token) != nil || !says(m, tokensFile+damagedFileEnd) || !says(m, "tidings token revoke "+token.ID) {
			return fmt.Errorf("%d searches; the doctor does not tell of the damage", m.CountWatches())
		}
		return nil
	})
	if another := m.token(t, proxy.SearchToken{}); another.ID == token.ID {
		t.Error("a new token gets the searches of an old one")
	}
	m.stop(t)

	// The file comes back from a backup.
	if err := errors.Join(os.WriteFile(c.path(tokensFile), good, 0o600), os.Remove(c.path(tokensFile+damagedFileEnd))); err != nil {
		t.Fatal(err)
	}
	m = running(t, c)
	m.awaitMembers(t, 1)
	within(t, awaitTimeout, "the search of the restored token", func() error {
		if m.searches(t, token.Token) != 1 || says(m, damagedFileEnd) || says(m, token.ID) {
			return errors.New("the restored file is not used")
		}
		return nil
	})
	m.tokens.mu.Lock()
	m.tokens.drop(m.tokens.byID[token.ID])
	m.tokens.mu.Unlock()
	if ended, err := m.tokens.RevokeToken(t.Context(), token.ID); err != nil || ended.Searches != 1 || m.CountWatches() != 0 {
		t.Errorf("%+v, and %d searches are left, %v", ended, m.CountWatches(), err)
	}
}

func TestFileOfTokens(t *testing.T) {
	hash := `"` + strings.Repeat("A", 43) + `="`
	for text, valid := range map[string]bool{
		`[]`: true, `[{"ID":"0000000a","Hash":` + hash + `}]`: true,
		`{`: false, `[{"ID":"0000000a"}]`: false, `[{"ID":"00000000","Hash":` + hash + `}]`: false, `[{"ID":"0000000A","Hash":` + hash + `}]`: false,
		`[{"ID":"a","Hash":` + hash + `}]`: false, `[{"ID":"0000000a","Hash":` + hash + `},{"ID":"0000000b","Hash":` + hash + `}]`: false,
	} {
		if _, err := decodeTokens([]byte(text)); (err == nil) != valid {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// The whole way: somebody on the Internet enters a token on the page, makes a search, and reads in its feed what then comes.
// After the token is revoked the address answers 410, and the page does not know the token any more.
func TestASearchFromTheInternet(t *testing.T) {
	t.Parallel()
	m := running(t, behindProxy(t, "internet"))
	m.awaitMembers(t, 1)
	v := &visit{m: m}
	if r, _ := v.do(t, "GET", "/s/", nil); r.StatusCode != http.StatusNotFound {
		t.Errorf("a node without tokens has a page for them: %d", r.StatusCode)
	}
	token := m.token(t, proxy.SearchToken{Name: "a name for the operator", MaxSearches: 1})
	if r, text := v.do(t, "GET", "/s/", nil); r.StatusCode != http.StatusOK || !strings.Contains(text, `type="password"`) {
		t.Errorf("the page is %d %s", r.StatusCode, text)
	}
	r, text := v.do(t, "POST", "/s/enter", url.Values{"token": {" " + token.Token + "\n"}})
	if r.StatusCode != http.StatusSeeOther || r.Header.Get("Location") != "/s/" || len(v.cookies) != 1 {
		t.Fatalf("enter: %d %s, %v", r.StatusCode, text, v.cookies)
	}
	if c := v.cookies[0]; !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteStrictMode || c.Path != "/s/" {
		t.Errorf("the cookie is %v", c)
	}
	const query = `"solar battery" OR <script>alert(1)</script>`
	if r, text := v.do(t, "POST", "/s/preview", url.Values{"q": {query}}); r.StatusCode != http.StatusOK || !strings.Contains(text, `value="&#34;solar battery&#34; OR &lt;script&gt;`) || strings.Contains(text, "<script") {
		t.Errorf("preview: %d %s", r.StatusCode, text)
	}
	r, text = v.do(t, "POST", "/s/watch", url.Values{"q": {query}})
	_, address, _ := strings.Cut(text, `<code class="address">https://feeds.example.org`)
	address, _, found := strings.Cut(address, "<")
	if r.StatusCode != http.StatusOK || !found || strings.Contains(text, "<script") {
		t.Fatalf("watch: %d %s", r.StatusCode, text)
	}
	for _, secret := range []string{token.Token, token.Name, token.ID, "/subscriptions", "/node"} {
		if strings.Contains(text, secret) {
			t.Errorf("the page has %q: %s", secret, text)
		}
	}
	if r, text := v.do(t, "POST", "/s/watch", url.Values{"q": {"moon"}}); r.StatusCode != http.StatusForbidden || !strings.Contains(text, "1 of 1") || !strings.Contains(text, `value="moon"`) {
		t.Errorf("over quota: %d %s", r.StatusCode, text)
	}

	f, err := feed.Parse([]byte(`<rss version="2.0"><channel><title>F</title><item><guid>1</guid><title>A solar battery</title></item></channel></rss>`), "")
	if err != nil {
		t.Fatal(err)
	}
	m.keywords.loop.Deliver(func() {
		a, _ := articleOf(feedtree.Subscription{URL: "https://example.org/f"}, &f.Items[0])
		m.keywords.receive(a, func() {})
	})
	reader := &visit{m: m}
	within(t, awaitTimeout, "the article", func() error {
		if r, text := reader.do(t, "GET", address, nil); r.StatusCode != http.StatusOK || !strings.Contains(text, "A solar battery") {
			return fmt.Errorf("%d %s", r.StatusCode, text)
		}
		return nil
	})
	if _, err := m.tokens.RevokeToken(t.Context(), token.ID); err != nil {
		t.Fatal(err)
	}
	if r, _ := reader.do(t, "GET", address, nil); r.StatusCode != http.StatusGone {
		t.Errorf("the address of a revoked token: %d", r.StatusCode)
	}
	m.token(t, proxy.SearchToken{}) // so that there is a page
	r, text = v.do(t, "GET", "/s/", nil)
	if r.StatusCode != http.StatusUnauthorized || len(v.cookies) != 0 {
		t.Errorf("a revoked token: %d, and the browser keeps %v", r.StatusCode, v.cookies)
	}
	unknown := &visit{m: m, cookies: []*http.Cookie{{Name: "tidings-searches", Value: "NEVER"}}}
	if other, otherText := unknown.do(t, "GET", "/s/", nil); other.StatusCode != r.StatusCode || otherText != text {
		t.Errorf("a token that never was gets %d %s, and a revoked one %d %s", other.StatusCode, otherText, r.StatusCode, text)
	}
}

// Whatever strangers send to the public paths of a node is refused with a reason, and costs the valid tokens nothing.
func TestStrangersAtThePageOfSearches(t *testing.T) {
	t.Parallel()
	m := opened(t, behindProxy(t, "strangers"))
	now := time.Now()
	m.tokens.now = func() time.Time { return now } // so that what is used too often stays so
	m.start(t)
	m.awaitMembers(t, 1)
	token := m.token(t, proxy.SearchToken{})
	cookie := &http.Cookie{Name: "tidings-searches", Value: token.Token}
	for _, c := range []struct {
		what, method, path string
		form               url.Values
		header             []string
		cookie             bool
		status             int
		says               string
	}{
		{"a wrong token", "POST", "/s/enter", url.Values{"token": {"wrong"}}, nil, false, 401, "not valid"},
		{"no token", "POST", "/s/enter", url.Values{}, nil, false, 401, "not valid"},
		{"no cookie", "POST", "/s/watch", url.Values{"q": {"sun"}}, nil, false, 401, "enter your token first"},
		{"no query", "POST", "/s/watch", url.Values{"q": {" "}}, nil, true, 400, "the query is empty"},
		{"a wrong query", "POST", "/s/watch", url.Values{"q": {"sun AND"}}, nil, true, 400, `value="sun AND"`},
		{"a long query", "POST", "/s/watch", url.Values{"q": {strings.Repeat("sun ", 2000)}}, nil, true, 400, "4096"},
		{"a large body", "POST", "/s/watch", url.Values{"q": {strings.Repeat("s", 20_000)}}, nil, true, 413, "larger than"},
		{"a page of another site", "POST", "/s/watch", url.Values{"q": {"sun"}}, []string{"Sec-Fetch-Site", "cross-site"}, true, 403, "another site"},
		{"an old browser on another site", "POST", "/s/leave", url.Values{}, []string{"Origin", "https://evil.example"}, true, 403, "another site"},
		{"its own page", "POST", "/s/watch", url.Values{"q": {"sun"}}, []string{"Origin", "https://feeds.example.org", "Sec-Fetch-Site", "same-origin"}, true, 200, "is now a feed"},
		{"a search of somebody else", "POST", "/s/unwatch", url.Values{"address": {"https://feeds.example.org/k/00.atom"}}, nil, true, 404, "has no search"},
		{"the wrong method", "GET", "/s/watch", nil, nil, true, 405, "method not allowed"},
		{"an unknown path", "GET", "/s/other", nil, nil, true, 404, "no such address"},
		{"a token in an address", "GET", "/s/?token=" + token.Token, nil, nil, false, 200, `type="password"`},
		{"a cookie at the API", "GET", "/s/api/searches", nil, nil, true, 401, "Authorization"},
		{"a wrong token at the API", "GET", "/s/api/searches", nil, []string{"Authorization", "Bearer wrong"}, false, 401, "not valid"},
		{"a form at the API", "POST", "/s/api/searches", url.Values{}, []string{"Authorization", "Bearer " + token.Token}, false, 415, "application/json"},
		{"the API of the node", "GET", "/api/v1/tokens", nil, []string{"Tidings", "1", "Authorization", "Bearer " + token.Token}, true, 403, "other machines"},
		{"the pages of the node", "GET", "/watch", nil, nil, true, 403, "other machines"},
		{"the style of the node's pages", "GET", "/style.css", nil, nil, true, 403, "other machines"},
		{"the style", "GET", "/s/style.css", nil, nil, false, 200, ":root"},
	} {
		v := &visit{m: m, header: c.header}
		if c.cookie {
			v.cookies = []*http.Cookie{cookie}
		}
		r, text := v.do(t, c.method, c.path, c.form)
		if r.StatusCode != c.status || !strings.Contains(strings.ToLower(text), strings.ToLower(c.says)) {
			t.Errorf("%s: %d %s, want %d with %q", c.what, r.StatusCode, text, c.status, c.says)
		}
		if policy := r.Header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "script-src") {
			t.Errorf("%s: the policy is %q", c.what, policy)
		}
	}
	if n := m.searches(t, token.Token); n != 1 {
		t.Errorf("the token has %d searches, and made one", n)
	}

	// A flood of wrong tokens is answered in short. It locks nobody out.
	flood, limited := &visit{m: m}, false
	for i := 0; i < 1000 && !limited; i++ {
		r, text := flood.do(t, "POST", "/s/enter", url.Values{"token": {"guess"}})
		if limited = r.StatusCode == http.StatusTooManyRequests; limited && strings.Contains(text, "<html") {
			t.Errorf("a flood is answered with a page: %s", text)
		}
	}
	if !limited {
		t.Error("a thousand wrong tokens are answered")
	}
	program := &visit{m: m, header: []string{"Authorization", "Bearer " + token.Token}}
	r, text := program.do(t, "GET", "/s/api/searches", nil)
	var answer proxy.SearchesResponse
	if err := json.Unmarshal([]byte(text), &answer); err != nil || r.StatusCode != http.StatusOK || len(answer.Watches) != 1 || answer.Token.Name != "" {
		t.Errorf("a program in the flood: %d %s, %v", r.StatusCode, text, err)
	}
	// A token that is used too often is told so, and others are not.
	other := m.token(t, proxy.SearchToken{})
	busy := m.tokens.Searcher(token.Token)
	for busy.Allow() {
	}
	if r, text := program.do(t, "GET", "/s/api/searches", nil); r.StatusCode != http.StatusTooManyRequests || !strings.Contains(text, "too often") {
		t.Errorf("a token in a hurry: %d %s", r.StatusCode, text)
	}
	program.header[1] = "Bearer " + other.Token
	if r, text := program.do(t, "GET", "/s/api/searches", nil); r.StatusCode != http.StatusOK {
		t.Errorf("another token: %d %s", r.StatusCode, text)
	}
}
