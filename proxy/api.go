package proxy

import (
	"bytes"
	"cmp"
	_ "embed" // openapi.json
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	apiPath = "/api/v1/"
	// apiHeader must be "1" in requests of programs. Web pages cannot send it to another site without permission,
	// which they never get. All answers of a node carry it, too.
	apiHeader = "Tidings"
	// maxRequest bounds the body of a request in bytes, except for lists and drafts.
	maxRequest = 16 << 10
)

// An apiRoute answers the requests of programs that have one of its methods. If the answer is nil, do has written it.
type apiRoute struct {
	do      func(*Server, http.ResponseWriter, *http.Request) (answer any, err error)
	methods []string
}

var (
	get  = []string{http.MethodGet}
	post = []string{http.MethodPost}
)

// openAPI describes the routes, requests and answers of the API, by OpenAPI 3.1.
//
//go:embed openapi.json
var openAPI []byte

// apiRoutes holds the routes below apiPath.
var apiRoutes = map[string]apiRoute{
	"openapi.json": {(*Server).apiDocument, get},

	"open":        {(*Server).apiOpen, post},
	"list":        {(*Server).apiList, get},
	"status":      {(*Server).apiStatus, get},
	"doctor":      {(*Server).apiDoctor, get},
	"subscribe":   {(*Server).apiSubscribe, post},
	"unsubscribe": {(*Server).apiUnsubscribe, post},
	"events":      {(*Server).apiEvents, get},
	"opml":        {(*Server).apiOPML, []string{http.MethodGet, http.MethodPost}},
	"publish":     {(*Server).apiPublish, post},
	"publisher":   {(*Server).apiPublisher, post},
	"trust":       {(*Server).apiTrust, post},
	"watch":       {(*Server).apiWatch, post},
	"unwatch":     {(*Server).apiUnwatch, post},
	"watches":     {(*Server).apiWatches, get},

	"candidates":         {(*Server).apiCandidates, get},
	"candidates/dismiss": {(*Server).apiDismissCandidate, post},
	"tokens":             {(*Server).apiTokens, []string{http.MethodGet, http.MethodPost}},
	"tokens/change":      {(*Server).apiChangeToken, post},
	"tokens/revoke":      {(*Server).apiRevokeToken, post},

	"notify":        {(*Server).apiNotify, []string{http.MethodGet, http.MethodPost}},
	"notify/remove": {(*Server).apiNotifyRemove, post},
	"notify/test":   {(*Server).apiNotifyTest, post},
	"notify/dead":   {(*Server).apiNotifyDead, get},
}

// api answers requests of programs. It reports whether the path is below apiPath.
func (s *Server) api(w http.ResponseWriter, r *http.Request, path string) bool {
	name, ok := strings.CutPrefix(path, apiPath)
	if !ok {
		return false
	}
	if r.Header.Get(apiHeader) != "1" {
		s.writeJSONError(w, refuse(http.StatusForbidden, "the header %s: 1 is missing: programs have to send it", apiHeader))
		return true
	}
	// A program that publishes may show the publishing token instead (apiPublish).
	if name != "publish" && !s.auth.isAuthorized(r) {
		s.writeJSONError(w, accessDenied(r))
		return true
	}
	err := refuse(http.StatusNotFound, "not found: %s%s", apiPath, oneLine(name))
	to, known := apiRoutes[name]
	if known {
		err = allow(w, r, to.methods...)
	}
	var answer any
	if err == nil {
		answer, err = to.do(s, w, r)
	}
	switch {
	case err != nil:
		s.writeJSONError(w, err)
	case answer != nil:
		w.Header().Set("Cache-Control", "no-store")
		writeJSON(w, http.StatusOK, answer)
	}
	return true
}

func (s *Server) apiDocument(http.ResponseWriter, *http.Request) (any, error) {
	return json.RawMessage(openAPI), nil
}

// ListResponse is the answer of list.
type ListResponse struct {
	Channels []Channel `json:"channels"`
	Next     string    `json:"next,omitempty"` // of a part of the list: address from which it goes on; empty at its end
}

// DoctorResponse is the answer of doctor.
type DoctorResponse struct {
	Findings []Finding `json:"findings"`
}

// AddressRequest is the request of unsubscribe, publisher and trust.
type AddressRequest struct {
	URL string `json:"url"`
}

// SubscribeMessage is the request and the answer of subscribe, and the answer of unsubscribe and trust.
type SubscribeMessage struct {
	URL     string `json:"url"`
	ReadURL string `json:"read_url,omitempty"`
	// Advertised says that the requested address is a page, and that URL is the feed that the page advertises.
	Advertised bool `json:"advertised,omitempty"`
	// Already says that a user had subscribed before. A subscription made by reading does not count.
	Already bool `json:"already,omitempty"`
	// Warning says why it is uncertain that the address is a feed, or the requested page.
	Warning string `json:"doubt,omitempty"`
	// Counts is the beginning of what counts on the page now, if the address says what counts.
	Counts []string `json:"counts,omitempty"`
	// MinProvenance, in a request to subscribe, is the minimum provenance of items that are shown: "publisher",
	// "witnessed", or "any". It stays as it is if this is "".
	MinProvenance string `json:"least,omitempty"`
	// Tags, in a request to subscribe, replace the tags of the subscription. If it is nil, they stay.
	Tags []string `json:"tags,omitzero"`
	// Private says that only this node polls the feed. URL in the answer is then the feed's name; see [PrivateFeeds].
	Private bool `json:"private,omitempty"`
	// QuietFollow says that members stand between, so that none knows both the reader and the feed.
	QuietFollow bool `json:"quiet_follow,omitempty"`
	// Headers, in a request to subscribe, are sent to the origin with each poll. They make a feed private.
	Headers map[string]string `json:"headers,omitempty"`
}

// ErrorResponse is the answer of any request that failed.
type ErrorResponse struct {
	Error   string   `json:"error"`
	Choices []Choice `json:"choices,omitempty"` // of subscribe: the user may have meant one of these
}

// maxListPart bounds the subscriptions in one answer of list with a limit, which then has a megabyte or two.
const maxListPart = 1000

// apiList answers with all subscriptions, or with a part of them if the request has a limit.
func (s *Server) apiList(_ http.ResponseWriter, r *http.Request) (any, error) {
	p := r.URL.Query()
	if !p.Has("limit") && !p.Has("from") && !p.Has("filter") {
		channels, err := s.list(r)
		return ListResponse{Channels: channels}, err
	}
	limit, err := limitOf(p, maxListPart)
	if err != nil {
		return nil, err
	}
	part, err := s.subs.ListPart(r.Context(), ListQuery{From: p.Get("from"), Filter: p.Get("filter"), Limit: limit})
	if err != nil {
		return nil, err
	}
	return ListResponse{s.completeAll(r, part.Channels), part.Next}, nil
}

// completeAll adds the addresses at which to read subscriptions. It never returns nil.
func (s *Server) completeAll(r *http.Request, channels []Channel) []Channel {
	if channels == nil {
		return []Channel{}
	}
	for i := range channels {
		s.complete(r, &channels[i])
	}
	return channels
}

// list returns the node's subscriptions, sorted by title, with the addresses at which to read them.
func (s *Server) list(r *http.Request) ([]Channel, error) {
	channels, err := s.subs.List(r.Context())
	if err != nil {
		return nil, err
	}
	SortByTitle(channels, func(c *Channel) *Channel { return c })
	return s.completeAll(r, channels), nil
}

// SortByTitle sorts values by the titles of their channels, in capital or small letters, and then by their addresses.
func SortByTitle[T any](all []T, channelOf func(*T) *Channel) {
	type place struct {
		title, url string
		at         int
	}
	places := make([]place, len(all))
	for i := range all {
		c := channelOf(&all[i])
		places[i] = place{strings.ToLower(titleOrAddress(c.Title, c.URL)), c.URL, i}
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.title, b.title), cmp.Compare(a.url, b.url), cmp.Compare(a.at, b.at))
	})
	for i := range places { // each value moves once, because a hundred thousand subscriptions take some fifty megabytes
		first := all[i]
		for to := i; ; {
			from := places[to].at
			places[to].at = to
			if from == i {
				all[to] = first
				break
			}
			all[to], to = all[from], from
		}
	}
}

// complete adds the address at which to read a subscription.
func (s *Server) complete(r *http.Request, c *Channel) {
	if c.Private {
		c.ReadURL = s.base(r) + c.ReadURL
	} else {
		c.ReadURL = s.ReadURL(s.base(r), c.URL)
	}
	if c.FormerKeys == nil {
		c.FormerKeys = []FormerKey{}
	}
	if c.Tags == nil {
		c.Tags = []string{}
	}
}

func (s *Server) apiStatus(_ http.ResponseWriter, r *http.Request) (any, error) {
	status, err := s.subs.Status(r.Context())
	if status.Addresses == nil {
		status.Addresses = []string{}
	}
	if status.RejectedItems == nil {
		status.RejectedItems = []RejectedItem{}
	}
	if status.Warnings == nil {
		status.Warnings = []Warning{}
	}
	if status.Levels == nil {
		status.Levels = []int{}
	}
	if status.Settings == nil {
		status.Settings = map[string]string{}
	}
	return status, err
}

func (s *Server) apiDoctor(_ http.ResponseWriter, r *http.Request) (any, error) {
	findings, err := s.subs.Doctor(r.Context(), nil)
	if findings == nil {
		findings = []Finding{}
	}
	return DoctorResponse{findings}, err
}

func (s *Server) apiSubscribe(w http.ResponseWriter, r *http.Request) (any, error) {
	q, err := decodeRequest[SubscribeMessage](w, r)
	if err != nil {
		return nil, err
	}
	if s.isPrivate(q) {
		return s.apiSubscribePrivately(r, q)
	}
	address, err := s.resolveAddress(r, q.URL)
	if err != nil {
		return nil, err
	}
	if !IsMinProvenance(q.MinProvenance) {
		return nil, refuse(http.StatusBadRequest, "least must be %s", MinProvenances)
	}
	tags := normalizeTags(q.Tags)
	if err := checkTags(q.Tags); err != nil {
		return nil, err
	}
	done, err := s.subscribe(r.Context(), address, q.QuietFollow)
	if err != nil {
		return nil, err
	}
	if q.Tags != nil {
		if err := s.subs.Describe(r.Context(), done.URL, Description{Tags: tags}); err != nil {
			return nil, err
		}
	}
	if q.MinProvenance != "" {
		if err := s.config.Publishing.Require(r.Context(), done.URL, q.MinProvenance); err != nil {
			return nil, err
		}
	}
	done.ReadURL = s.ReadURL(s.base(r), done.URL)
	return done, nil
}

func (s *Server) apiSubscribePrivately(r *http.Request, q SubscribeMessage) (any, error) {
	if q.MinProvenance != "" && q.MinProvenance != ProvenanceAny {
		return nil, refuse(http.StatusBadRequest, "items of a private feed are not signed, and no other node sees them: subscribe without least (--least), or without private (--private)")
	}
	if q.QuietFollow {
		return nil, refuse(http.StatusBadRequest, "no other node knows a private feed: subscribe without quiet_follow (--quiet-follow), or without private (--private)")
	}
	if err := checkTags(q.Tags); err != nil {
		return nil, err
	}
	p := PrivateFeed{Address: q.URL, Headers: q.Headers}
	if q.Tags != nil {
		p.Description.Tags = normalizeTags(q.Tags)
	}
	return s.subscribePrivately(r, p)
}

func (s *Server) apiUnsubscribe(w http.ResponseWriter, r *http.Request) (any, error) {
	address, err := s.decodeAddress(w, r)
	if err != nil {
		return nil, err
	}
	if err := s.subs.Unsubscribe(r.Context(), address); err != nil {
		return nil, err
	}
	return SubscribeMessage{URL: address}, nil
}

// decodeAddress decodes the address in a request.
func (s *Server) decodeAddress(w http.ResponseWriter, r *http.Request) (string, error) {
	q, err := decodeRequest[AddressRequest](w, r)
	if err != nil {
		return "", err
	}
	return s.resolveAddress(r, q.URL)
}

// decodeRequest decodes a request of at most maxRequest bytes.
func decodeRequest[T any](w http.ResponseWriter, r *http.Request) (q T, err error) {
	return decodeRequestUpTo[T](w, r, maxRequest)
}

func decodeRequestUpTo[T any](w http.ResponseWriter, r *http.Request, limit int64) (q T, err error) {
	body, err := readJSONBody(w, r, limit)
	if err == nil {
		err = jsonError(json.Unmarshal(body, &q))
	}
	return q, err
}

// readJSONBody reads the JSON body of a request.
func readJSONBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		return nil, refuse(http.StatusUnsupportedMediaType, "the content type of the request must be application/json")
	}
	body, err := readBody(w, r, limit)
	if err == nil && !utf8.Valid(body) { // the JSON decoder would replace invalid bytes
		err = refuse(http.StatusBadRequest, "the request is not in UTF-8")
	}
	return body, err
}

// jsonError converts a decoding error to one that helps the author of the request.
func jsonError(err error) error {
	if err == nil {
		return nil
	}
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case errors.Is(err, io.EOF):
		return refuse(http.StatusBadRequest, "the request has no body: send one JSON object")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return refuse(http.StatusBadRequest, "the request ends within its JSON object: send all of it")
	case ok && wrong.Field == "":
		return refuse(http.StatusBadRequest, "the request must be one JSON object, not: %s", wrong.Value)
	case ok:
		return refuse(http.StatusBadRequest, "the request is not valid: %q cannot be: %s", wrong.Field, wrong.Value)
	}
	return refuse(http.StatusBadRequest, "the request is not valid: %s", strings.TrimPrefix(err.Error(), "json: "))
}

// readBody reads a body of at most limit bytes.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	return body, bodyError(err)
}

// bodyError converts an error of reading a body.
func bodyError(err error) error {
	large, ok := errors.AsType[*http.MaxBytesError](err)
	switch {
	case err == nil:
		return nil
	case ok:
		return refuse(http.StatusRequestEntityTooLarge, "the request is larger than %d bytes", large.Limit)
	}
	return refuse(http.StatusBadRequest, "the request is not valid: %v", err)
}

func (s *Server) writeJSONError(w http.ResponseWriter, err error) {
	status, message := s.writeErrorHeaders(w, err)
	fault := ErrorResponse{Error: message}
	if p, ok := errors.AsType[*choiceError](err); ok {
		fault.Choices = p.choices
	}
	writeJSON(w, status, fault)
}

// writeJSON answers with one JSON object. In an answer that has lines already, it is the last one.
func writeJSON(w http.ResponseWriter, status int, v any) {
	var body bytes.Buffer
	if err := json.NewEncoder(&body).Encode(v); err != nil { // encoded first, so that an error does not leave half an answer
		status, body = http.StatusInternalServerError, bytes.Buffer{}
		fmt.Fprintf(&body, "{\"error\":%q}\n", "answer not encoded: "+err.Error())
	}
	if w.Header().Get("Content-Type") != linesType { // otherwise the status has been sent
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
	}
	_, _ = w.Write(body.Bytes()) // an error means that the program has disconnected
}
