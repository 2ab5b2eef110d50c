package proxy

import (
	"bytes"
	"cmp"
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
	// apiHeader must be "1" in requests of programs. Web pages cannot send it to
	// another site without asking first, and are never told that they may. All answers of a node carry it, too.
	apiHeader = "Tidings"
	// maxRequest is more than any request of the interface has, lists apart.
	maxRequest = 16 << 10
)

// api answers programs; it reports whether the path is one of theirs.
func (s *Server) api(w http.ResponseWriter, r *http.Request, path string) bool {
	name, ok := strings.CutPrefix(path, apiPath)
	if !ok {
		return false
	}
	if r.Header.Get(apiHeader) != "1" {
		s.writeJSONError(w, refuse(http.StatusForbidden, "the header %s: 1 is missing: programs have to send it", apiHeader))
		return true
	}
	// A program that publishes may show the publisher's token instead (apiPublish).
	if name != "publish" && !s.auth.isAuthorized(r) {
		s.writeJSONError(w, unauthorized(r))
		return true
	}
	var answer any
	var err error
	switch name {
	case "open":
		answer, err = s.apiOpen(w, r)
	case "list":
		answer, err = s.apiList(w, r)
	case "status":
		answer, err = s.apiStatus(w, r)
	case "doctor":
		answer, err = s.apiDoctor(w, r)
	case "subscribe":
		answer, err = s.apiSubscribe(w, r)
	case "unsubscribe":
		answer, err = s.apiUnsubscribe(w, r)
	case "opml":
		answer, err = s.apiOPML(w, r)
	case "publish":
		answer, err = s.apiPublish(w, r)
	case "publisher":
		answer, err = s.apiPublisher(w, r)
	case "trust":
		answer, err = s.apiTrust(w, r)
	case "watch":
		answer, err = s.apiWatch(w, r)
	case "unwatch":
		answer, err = s.apiUnwatch(w, r)
	case "watches":
		answer, err = s.apiWatches(w, r)
	default:
		err = refuse(http.StatusNotFound, "not found: %s%s", apiPath, oneLine(name))
	}
	switch {
	case err != nil:
		s.writeJSONError(w, err)
	case answer != nil: // else it was given already
		w.Header().Set("Cache-Control", "no-store")
		writeJSON(w, http.StatusOK, answer)
	}
	return true
}

// Listed is the answer of list.
type ListResponse struct {
	Channels []Channel `json:"channels"`
}

// Diagnosis is the answer of doctor.
type DoctorResponse struct {
	Findings []Finding `json:"findings"`
}

// Subscribed is the answer of subscribe and of unsubscribe, and URL the question.
type SubscribeMessage struct {
	URL     string `json:"url"`
	ReadURL string `json:"read_url,omitempty"`
	// Advertised says that URL is not what was asked for, which is a page, but its feed.
	Advertised bool `json:"advertised,omitempty"`
	// Already says that URL was subscribed to before.
	Already bool `json:"already,omitempty"`
	// Doubt says why it could not be seen whether there is a feed, or the page.
	Warning string `json:"doubt,omitempty"`
	// Least, in the question of subscribe, is what has to vouch for items to be shown:
	// "publisher", or "" for whatever it is.
	MinProvenance string `json:"least,omitempty"`
	// Tags, in the question of subscribe, take the place of the subscription's tags; nil leaves those.
	Tags []string `json:"tags,omitzero"`
}

// Fault is the answer of any of them when it went wrong.
type ErrorResponse struct {
	Error   string   `json:"error"`
	Choices []Choice `json:"choices,omitempty"` // of subscribe: one of them may have been meant
}

func (s *Server) apiList(w http.ResponseWriter, r *http.Request) (any, error) {
	if err := allow(w, r, http.MethodGet); err != nil {
		return nil, err
	}
	channels, err := s.list(r)
	return ListResponse{channels}, err
}

// list is the node's list by title, with addresses to read at.
func (s *Server) list(r *http.Request) ([]Channel, error) {
	channels, err := s.subs.List(r.Context())
	if err != nil {
		return nil, err
	}
	out := make([]Channel, len(channels)) // the node's own is not written to
	for i, c := range channels {
		c.ReadURL = s.ReadURL(s.base(r), c.URL)
		if c.FormerKeys == nil {
			c.FormerKeys = []FormerKey{}
		}
		if c.Tags == nil {
			c.Tags = []string{}
		}
		out[i] = c
	}
	slices.SortStableFunc(out, func(a, b Channel) int {
		return cmp.Or(cmp.Compare(strings.ToLower(titleOrAddress(a.Title, a.URL)), strings.ToLower(titleOrAddress(b.Title, b.URL))), cmp.Compare(a.URL, b.URL))
	})
	return out, nil
}

func (s *Server) apiStatus(w http.ResponseWriter, r *http.Request) (any, error) {
	if err := allow(w, r, http.MethodGet); err != nil {
		return nil, err
	}
	status, err := s.subs.Status(r.Context())
	if status.Addresses == nil {
		status.Addresses = []string{}
	}
	if status.RejectedItems == nil {
		status.RejectedItems = []RejectedItem{}
	}
	if status.Warnings == nil {
		status.Warnings = []string{}
	}
	return status, err
}

func (s *Server) apiDoctor(w http.ResponseWriter, r *http.Request) (any, error) {
	if err := allow(w, r, http.MethodGet); err != nil {
		return nil, err
	}
	findings, err := s.subs.Doctor(r.Context())
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
	address, err := s.resolveAddress(r, q.URL)
	if err != nil {
		return nil, err
	}
	if q.MinProvenance != "" && q.MinProvenance != ProvenancePublisher && q.MinProvenance != ProvenanceAny {
		return nil, refuse(http.StatusBadRequest, "least must be %s or %s", ProvenancePublisher, ProvenanceAny)
	}
	tags := normalizeTags(q.Tags)
	if err := checkTags(q.Tags); err != nil {
		return nil, err
	}
	done, err := s.subscribe(r.Context(), address)
	if err != nil {
		return nil, err
	}
	if q.Tags != nil {
		if err := s.subs.Describe(r.Context(), done.URL, Description{Tags: tags}); err != nil {
			return nil, err
		}
	}
	if q.MinProvenance != "" {
		p, err := s.publishing()
		if err != nil {
			return nil, err
		}
		if err := p.Require(r.Context(), done.URL, q.MinProvenance); err != nil {
			return nil, err
		}
	}
	done.ReadURL = s.ReadURL(s.base(r), done.URL)
	return done, nil
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

// question reads the address that a program asks about.
func (s *Server) decodeAddress(w http.ResponseWriter, r *http.Request) (string, error) {
	q, err := decodeRequest[SubscribeMessage](w, r)
	if err != nil {
		return "", err
	}
	return s.resolveAddress(r, q.URL)
}

// asked reads what a program asks.
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

// askedBody reads the JSON that a program sends.
func readJSONBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if err := allow(w, r, http.MethodPost); err != nil {
		return nil, err
	}
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		return nil, refuse(http.StatusUnsupportedMediaType, "the content type of the request must be application/json")
	}
	body, err := readBody(w, r, limit)
	if err == nil && !utf8.Valid(body) { // which JSON would read as something else
		err = refuse(http.StatusBadRequest, "the request is not in UTF-8")
	}
	return body, err
}

// jsonFault says what is wrong with JSON, in words of who wrote it.
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

// readBody reads a body that must not be larger than limit.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	return body, bodyError(err)
}

// bodyFault says what went wrong with a body.
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
	status, words := s.writeErrorHeaders(w, err)
	fault := ErrorResponse{Error: words}
	if p, ok := errors.AsType[*choiceError](err); ok {
		fault.Choices = p.choices
	}
	writeJSON(w, status, fault)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	var body bytes.Buffer
	if err := json.NewEncoder(&body).Encode(v); err != nil { // not with half of it told
		status, body = http.StatusInternalServerError, bytes.Buffer{}
		fmt.Fprintf(&body, "{\"error\":%q}\n", "answer not encoded: "+err.Error())
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // a program that went away hears nothing
}
