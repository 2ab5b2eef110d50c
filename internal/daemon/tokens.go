package daemon

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/time/rate"

	"tidings/cobra"
	"tidings/internal/locale"
	"tidings/internal/store"
	"tidings/proxy"
)

// searchTokens lets people make searches who are not the node's user: each has a token with a quota. The file of tokens has
// their hashes only. Whose a search is stands in the record of the search, so a lost file of tokens loses no search.
type searchTokens struct {
	path    string
	watches *watches
	log     *slog.Logger
	now     func() time.Time
	damaged string // the file that was set aside at the start; empty: none

	mu     sync.Mutex // guards the fields below, and is held while the file is written
	byID   map[string]*searchToken
	byHash map[[sha256.Size]byte]*searchToken // those that are not revoked
}

// A tokenRecord is what the file says about a token.
type tokenRecord struct {
	ID       string // in hexadecimal digits; the owner of its searches
	Name     string
	Hash     []byte // of its text, by SHA-256
	Searches int    // how many it may have
	Made     time.Time
	Expires  time.Time `json:",omitzero"`
	Revoked  bool      // some of its searches may not have ended yet
}

const (
	// defaultTokenSearches and maxTokenSearches are the searches of a token: of one for which its maker names no number, and
	// the most, as many as a contact of the messenger may have. A search takes 45 to 80 bytes of memory for each of its up to
	// 64 alternatives.
	defaultTokenSearches = 100
	maxTokenSearches     = 1_000
	// maxTokens and maxTokenName bound the tokens, and the name of one in bytes. The file of all is written for each change.
	maxTokens    = 10_000
	maxTokenName = 100
	// maxTokensFile bounds the file in bytes.
	maxTokensFile = 16 << 20
	// tokenBurst and tokenPause bound the requests with one token: how many at once, and the time between two after that.
	// A request may try a query on ten thousand articles.
	tokenBurst = 30
	tokenPause = 500 * time.Millisecond
	// tokenCheck is the time between two looks for tokens that have expired. They open nothing from that moment on, and their
	// searches end with the next look.
	tokenCheck = time.Minute
)

// load reads the file of an earlier run.
func (t *searchTokens) load() error {
	t.byID, t.byHash = map[string]*searchToken{}, map[[sha256.Size]byte]*searchToken{}
	err := readOwnFile(t.path, "the tokens for searches", t.log, func(b []byte) error {
		records, err := decodeTokens(b)
		for _, r := range records {
			t.add(r)
		}
		return err
	})
	if _, missing := os.Stat(t.path + damagedFileEnd); missing == nil {
		t.damaged = t.path + damagedFileEnd
	}
	return err
}

// decodeTokens reads the file of tokens.
func decodeTokens(b []byte) (records []tokenRecord, err error) {
	if len(b) > maxTokensFile || json.Unmarshal(b, &records) != nil || len(records) > maxTokens {
		return nil, errors.New("it is too large, or not JSON")
	}
	ids, hashes := map[string]bool{}, map[string]bool{}
	for _, r := range records {
		if ownerOf(r.ID) == 0 || len(r.Hash) != sha256.Size || ids[r.ID] || hashes[string(r.Hash)] {
			return nil, errors.New("a token in it is not valid")
		}
		ids[r.ID], hashes[string(r.Hash)] = true, true
	}
	return records, nil
}

// ownerOf returns the owner of the searches of a token; 0 if the id is not that of a token.
func ownerOf(id string) uint32 {
	n, err := strconv.ParseUint(id, 16, 32)
	if err != nil || tokenID(uint32(n)) != id {
		return 0
	}
	return uint32(n)
}

// tokenID returns the id of the token whose searches have an owner; empty for the node's user.
func tokenID(owner uint32) string {
	if owner == 0 {
		return ""
	}
	return fmt.Sprintf("%08x", owner)
}

// add adds a token to the maps. The caller holds the mutex, or nothing runs yet.
func (t *searchTokens) add(r tokenRecord) *searchToken {
	token := &searchToken{r, t, rate.NewLimiter(rate.Every(tokenPause), tokenBurst)}
	t.byID[r.ID] = token
	if !r.Revoked {
		t.byHash[[sha256.Size]byte(r.Hash)] = token
	}
	return token
}

// drop removes a token from the maps. The caller holds the mutex.
func (t *searchTokens) drop(token *searchToken) {
	delete(t.byID, token.ID)
	delete(t.byHash, [sha256.Size]byte(token.Hash))
}

// save writes the file. The caller holds the mutex.
func (t *searchTokens) save() error {
	records := []tokenRecord{}
	for _, token := range t.byID {
		records = append(records, token.tokenRecord)
	}
	slices.SortFunc(records, func(a, b tokenRecord) int { return cmp.Or(a.Made.Compare(b.Made), cmp.Compare(a.ID, b.ID)) })
	b, err := json.MarshalIndent(records, "", "\t")
	if err == nil {
		err = store.WriteFile(t.path, b)
	}
	if err != nil {
		return fmt.Errorf("store the tokens for searches: %w", err)
	}
	return nil
}

// isValid reports whether a token opens anything.
func (r tokenRecord) isValid(now time.Time) bool {
	return !r.Revoked && (r.Expires.IsZero() || now.Before(r.Expires))
}

// shown returns a token as programs and people see it.
func (r tokenRecord) shown(searches int) proxy.SearchToken {
	return proxy.SearchToken{ID: r.ID, Name: r.Name, Searches: searches, MaxSearches: r.Searches, Made: r.Made, Expires: proxy.OptionalTime(r.Expires)}
}

// checkLimits checks the number of searches and the expiry of a token.
func (r tokenRecord) checkLimits(now time.Time) error {
	switch {
	case r.Searches < 1 || r.Searches > maxTokenSearches:
		return fmt.Errorf("it cannot have %d searches; give 1 to %d", r.Searches, maxTokenSearches)
	case !r.Expires.IsZero() && !now.Before(r.Expires):
		return fmt.Errorf("it would have expired at %s; give a later time", r.Expires.Format(time.RFC3339))
	}
	return nil
}

// CreateToken makes a token; see proxy.SearchTokens.
func (t *searchTokens) CreateToken(ctx context.Context, q proxy.SearchToken) (proxy.SearchToken, error) {
	fail := func(kind error, format string, a ...any) (proxy.SearchToken, error) {
		return proxy.SearchToken{}, kindError{kind, fmt.Errorf("create a token: "+format, a...)}
	}
	var owners []uint32 // of searches; a new token gets the searches of none
	if err := t.watches.keywords.do(ctx, func() { owners = t.watches.keywords.reflector.Owners() }); err != nil {
		return proxy.SearchToken{}, err
	}
	now := t.now()
	q.MaxSearches = cmp.Or(q.MaxSearches, defaultTokenSearches)
	r := tokenRecord{Name: q.Name, Searches: q.MaxSearches, Made: now.UTC().Truncate(time.Second)}
	if q.Expires != nil {
		r.Expires = q.Expires.UTC()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	invalid := r.checkLimits(now)
	switch {
	case invalid != nil:
		return fail(proxy.ErrToken, "%w", invalid)
	case len(r.Name) > maxTokenName || strings.ContainsFunc(r.Name, func(c rune) bool { return !unicode.IsPrint(c) }):
		return fail(proxy.ErrToken, "the name has more than %d bytes or signs that do not print; give a shorter one", maxTokenName)
	case r.Name != "" && t.find(r.Name) != nil:
		return fail(proxy.ErrToken, "there is a token %q already; give another name, or revoke that one", r.Name)
	case len(t.byID) >= maxTokens:
		return fail(proxy.ErrFull, "this node has %d, which is all that it takes; revoke one first", maxTokens)
	}
	for r.ID == "" || t.byID[r.ID] != nil || slices.Contains(owners, ownerOf(r.ID)) {
		var random [4]byte
		_, _ = rand.Read(random[:]) // it never fails
		r.ID = tokenID(binary.BigEndian.Uint32(random[:]))
	}
	text := rand.Text()
	hash := sha256.Sum256([]byte(text))
	r.Hash = hash[:]
	token := t.add(r)
	if err := t.save(); err != nil {
		t.drop(token)
		return proxy.SearchToken{}, err
	}
	made := token.shown(0)
	made.Token = text
	return made, nil
}

// noSuchToken ends the errors about a token that is not there.
const noSuchToken = "there is no token with this id or name; tidings token list shows all"

// ChangeToken changes the limits of a token; see proxy.SearchTokens.
func (t *searchTokens) ChangeToken(ctx context.Context, q proxy.TokenLimits) (proxy.SearchToken, error) {
	t.mu.Lock()
	token := t.find(q.ID)
	t.mu.Unlock()
	var owned []cobra.SubscriptionID
	err := error(kindError{proxy.ErrNoToken, errors.New(noSuchToken)})
	if token != nil {
		owned, err = t.watches.owned(ctx, ownerOf(token.ID)) // first, as nothing may fail after the change
	}
	var record tokenRecord
	if err == nil {
		record, err = t.change(token, q)
	}
	if err != nil {
		return proxy.SearchToken{}, fmt.Errorf("change the token %q: %w", q.ID, err)
	}
	return record.shown(len(owned)), nil
}

// change changes the limits of a token, durably. All else of it stays as it is, and is read without the mutex.
func (t *searchTokens) change(token *searchToken, q proxy.TokenLimits) (tokenRecord, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if t.byID[token.ID] != token || !token.isValid(now) {
		return tokenRecord{}, kindError{proxy.ErrNoToken, errors.New(noSuchToken)}
	}
	before := token.tokenRecord
	next := before
	if q.MaxSearches != nil {
		next.Searches = *q.MaxSearches
	}
	switch {
	case q.NeverExpires && q.Expires != nil:
		return tokenRecord{}, kindError{proxy.ErrToken, errors.New("it cannot expire at a time and never; give one of them")}
	case q.NeverExpires:
		next.Expires = time.Time{}
	case q.Expires != nil:
		next.Expires = q.Expires.UTC()
	}
	if err := next.checkLimits(now); err != nil {
		return tokenRecord{}, kindError{proxy.ErrToken, err}
	}
	token.tokenRecord.Searches, token.Expires = next.Searches, next.Expires
	if err := t.save(); err != nil {
		token.tokenRecord.Searches, token.Expires = before.Searches, before.Expires
		return tokenRecord{}, err
	}
	return next, nil
}

// find returns the token with an id or a name, or nil. The caller holds the mutex.
func (t *searchTokens) find(name string) *searchToken {
	if token := t.byID[name]; token != nil {
		return token
	}
	for _, token := range t.byID {
		if name != "" && token.Name == name {
			return token
		}
	}
	return nil
}

// RevokeToken ends a token and its searches; see proxy.SearchTokens.
func (t *searchTokens) RevokeToken(ctx context.Context, name string) (proxy.SearchToken, error) {
	t.mu.Lock()
	token := t.find(name)
	t.mu.Unlock()
	if token != nil {
		ended, err := t.end(ctx, token)
		return token.record().shown(ended), err
	}
	// The file of tokens may have been lost, and its searches go on.
	ended, err := t.endSearches(ctx, ownerOf(name))
	if err == nil && ended == 0 {
		err = kindError{proxy.ErrNoToken, fmt.Errorf("revoke %s: %s", name, noSuchToken)}
	}
	return proxy.SearchToken{ID: name, Searches: ended}, err
}

// end revokes a token, ends its searches, and forgets it. A node that stops meanwhile goes on at its next start.
func (t *searchTokens) end(ctx context.Context, token *searchToken) (ended int, err error) {
	t.mu.Lock()
	if !token.Revoked {
		token.Revoked = true
		if err = t.save(); err == nil {
			delete(t.byHash, [sha256.Size]byte(token.Hash))
		}
		token.Revoked = err == nil
	}
	t.mu.Unlock()
	if err == nil {
		ended, err = t.endSearches(ctx, ownerOf(token.ID))
	}
	if err != nil {
		return ended, fmt.Errorf("revoke the token %s: %w", cmp.Or(token.Name, token.ID), err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(token)
	return ended, t.save()
}

// endSearches ends all searches of an owner that makes no more.
func (t *searchTokens) endSearches(ctx context.Context, owner uint32) (ended int, err error) {
	if owner == 0 {
		return 0, nil
	}
	release, err := t.watches.reserve(ctx) // a search that was begun with a valid token is complete then
	if err != nil {
		return 0, err
	}
	defer release()
	owned, err := t.watches.owned(ctx, owner)
	if err != nil {
		return 0, err
	}
	return len(owned), t.watches.keywords.unsubscribe(ctx, owned...)
}

// Tokens returns the valid tokens; see proxy.SearchTokens.
func (t *searchTokens) Tokens(ctx context.Context) ([]proxy.SearchToken, error) {
	var valid []tokenRecord
	t.mu.Lock()
	for _, token := range t.byID {
		if token.isValid(t.now()) {
			valid = append(valid, token.tokenRecord)
		}
	}
	t.mu.Unlock()
	slices.SortFunc(valid, func(a, b tokenRecord) int { return cmp.Or(a.Made.Compare(b.Made), cmp.Compare(a.ID, b.ID)) })
	shown := make([]proxy.SearchToken, len(valid))
	err := t.watches.keywords.do(ctx, func() {
		for i, token := range valid {
			shown[i] = token.shown(len(t.watches.keywords.reflector.Owned(ownerOf(token.ID))))
		}
	})
	return shown, err
}

// HasTokens reports whether there is a token; see proxy.SearchTokens.
func (t *searchTokens) HasTokens() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byHash) > 0
}

// Searcher returns the valid token with a text, or nil; see proxy.SearchTokens. The map is searched by the hash of the text,
// so the time that this takes tells nothing about the texts of other tokens.
func (t *searchTokens) Searcher(text string) proxy.Searcher {
	hash := sha256.Sum256([]byte(text))
	t.mu.Lock()
	defer t.mu.Unlock()
	if token := t.byHash[hash]; token != nil && token.isValid(t.now()) {
		return token
	}
	return nil
}

// run ends the searches of tokens that have expired, or that were revoked before the node stopped, until ctx ends.
func (t *searchTokens) run(ctx context.Context) {
	check := time.NewTicker(tokenCheck)
	defer check.Stop()
	for {
		if err := t.sweep(ctx); err != nil && ctx.Err() == nil {
			t.log.Warn("searches of a token cannot be ended; next try in a minute", "err", err)
		}
		select {
		case <-check.C:
		case <-ctx.Done():
			return
		}
	}
}

// sweep ends the tokens that are not valid any more.
func (t *searchTokens) sweep(ctx context.Context) error {
	var over []*searchToken
	t.mu.Lock()
	for _, token := range t.byID {
		if !token.isValid(t.now()) {
			token.Revoked = true // from now on, nobody can give it more time
			over = append(over, token)
		}
	}
	t.mu.Unlock()
	for _, token := range over {
		ended, err := t.end(ctx, token)
		if err != nil {
			return err
		}
		t.log.Info("token for searches has ended", "id", token.ID, "searches", ended)
	}
	return nil
}

// tokenStats counts tokens for metrics.
type tokenStats struct {
	Valid int // tokens with which others make searches
}

func (t *searchTokens) stats() tokenStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return tokenStats{len(t.byHash)}
}

// counts returns the numbers for the status; nil if there are no tokens.
func (t *searchTokens) counts() *proxy.TokenCounts {
	n := t.stats().Valid
	if n == 0 {
		return nil
	}
	return &proxy.TokenCounts{Tokens: n, Searches: int(t.watches.keywords.owned.Load())}
}

// findings returns what the doctor says about tokens.
func (t *searchTokens) findings(ctx context.Context) (findings []proxy.Finding) {
	if t.damaged != "" {
		if _, err := os.Stat(t.damaged); err == nil { // the user has not removed it
			findings = append(findings, proxy.Finding{
				Level: levelNote, What: locale.Say("the file of tokens for searches was damaged and set aside: %s; their searches go on, and nobody can change them", t.damaged),
				Do: locale.Say("restore the file from a backup without the ending %s and start the node again, or create new tokens; then delete the damaged file", damagedFileEnd),
			})
		}
	}
	unknown := map[string]int{}
	if k := t.watches.keywords; k.ready() {
		_ = k.do(ctx, func() { // an error means that the node stops
			for _, owner := range k.reflector.Owners() {
				unknown[tokenID(owner)] = len(k.reflector.Owned(owner))
			}
		})
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for id := range t.byID {
		delete(unknown, id)
	}
	for _, id := range slices.Sorted(maps.Keys(unknown)) {
		if len(findings) == maxProblemFeeds {
			break
		}
		findings = append(findings, proxy.Finding{
			Level: levelNote, What: locale.Say("the token %s is not known, and has searches: %d", id, unknown[id]),
			Do: locale.Say("restore the file %s from a backup, or end the searches with tidings token revoke %s", tokensFile, id),
		})
	}
	if n := len(t.byHash); n > 0 {
		findings = append(findings, proxy.Finding{Level: levelOK, What: locale.Say("tokens for searches: %d, with %d searches", n, int(t.watches.keywords.owned.Load()))})
	}
	return findings
}

var _ proxy.SearchTokens = (*searchTokens)(nil)
