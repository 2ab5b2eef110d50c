package proxy

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"tidings/internal/check/checktest"
	"tidings/internal/locale"
	"tidings/internal/news"
)

// An object is an object of openapi.json.
type object = map[string]any

// at returns the part of an object behind a path of keys, or nil if there is none.
func at(o object, path ...string) object {
	for _, key := range path {
		o, _ = o[key].(object)
	}
	return o
}

// apiDocument returns openapi.json, and a compiler of its schemas by which no object has a field that it does not name.
var apiDocument = sync.OnceValue(func() (d struct {
	object
	schemas *jsonschema.Compiler
}) {
	read := func() object {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(openAPI))
		if err != nil {
			panic(err)
		}
		return doc.(object)
	}
	strict := read()
	for _, schema := range at(strict, "components", "schemas") {
		schema.(object)["additionalProperties"] = false
	}
	d.object, d.schemas = read(), jsonschema.NewCompiler()
	d.schemas.AssertFormat()
	d.schemas.AssertContent()
	if err := d.schemas.AddResource("api.json", strict); err != nil {
		panic(err)
	}
	return d
})

// checkAPI fails the test if a request or its answer is not as openapi.json describes it.
func checkAPI(t *testing.T, method, name, asked string, status int, answer string) {
	t.Helper()
	name, _, _ = strings.Cut(name, "?")
	const schema = "/content/application~1json/schema"
	check := func(place, text string) {
		t.Helper()
		s, err := apiDocument().schemas.Compile("api.json#" + place + schema)
		if err != nil {
			t.Fatalf("openapi.json does not describe %s %s with status %d: %v", method, name, status, err)
		}
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err == nil {
			err = s.Validate(v)
		}
		if err != nil {
			t.Errorf("%s %s: openapi.json has another schema at %s: %v", method, name, place, err)
		}
	}
	verb := strings.ToLower(method)
	operation := at(apiDocument().object, "paths", "/"+name, verb)
	if status >= 400 && at(operation, "responses", strconv.Itoa(status)) == nil {
		check("/components/responses/Error", answer)
		return
	}
	place := "/paths/~1" + strings.ReplaceAll(name, "/", "~1") + "/" + verb
	check(place+"/responses/"+strconv.Itoa(status), answer)
	body := at(operation, "requestBody")
	if status >= 300 || body == nil {
		return
	}
	place += "/requestBody"
	if ref, ok := body["$ref"].(string); ok {
		place = strings.TrimPrefix(ref, "#")
		body = at(apiDocument().object, strings.Split(place, "/")[1:]...)
	}
	if at(body, "content", "application/json") != nil {
		check(place, asked)
	}
}

// The document has all routes with their methods and no others, and a request of each is answered as it says.
func TestOpenAPIDescribesAllRoutes(t *testing.T) {
	b := newTestServer(t, func(c *Config) {
		c.Keywords, c.Publishing, c.Notifications = &memoryKeywords{}, &memoryPublishing{}, &memoryNotifications{}
		c.Candidates, c.Tokens = newMemoryCandidates(), &memoryTokens{}
	})
	calls := []struct{ method, name, text string }{
		{"GET", "openapi.json", ""}, {"GET", "status", ""}, {"GET", "doctor", ""}, {"POST", "open", ""},
		{"POST", "subscribe", `{"url":"` + rssURL + `","tags":["a"],"least":"any"}`}, {"GET", "list", ""},
		{"GET", "events", ""}, {"GET", "opml", ""}, {"POST", "opml", `<opml><outline xmlUrl="` + atomURL + `"/><outline xmlUrl="none"/></opml>`},
		{"POST", "publish", `{"envelope":"c2lnbmVk"}`}, {"POST", "publisher", `{"url":"` + rssURL + `"}`}, {"POST", "trust", `{"url":"` + rssURL + `"}`},
		{"POST", "watch", `{"query":"solar","once":true}`}, {"GET", "watches", ""}, {"POST", "unwatch", `{"query":"solar"}`},
		{"POST", "notify", `{"to":"https://hooks.example/","feeds":["` + rssURL + `"],"pause_s":60}`}, {"GET", "notify", ""},
		{"POST", "notify/test", `{"id":"a"}`}, {"GET", "notify/dead?id=a", ""}, {"POST", "notify/remove", `{"id":"a"}`},
		{"GET", "candidates?least=1", ""}, {"POST", "candidates/dismiss", `{"url":"https://blog0.example/feed"}`},
		{"POST", "unsubscribe", `{"url":"` + rssURL + `"}`},
		{"POST", "tokens", `{"name":"n","max_searches":5,"expires":"2100-01-01T00:00:00Z"}`}, {"GET", "tokens", ""},
		{"POST", "tokens/change", `{"id":"n","max_searches":7,"expires":"2100-01-01T00:00:00Z"}`},
	}
	var called, served, described []string
	for _, c := range calls {
		path, _, _ := strings.Cut(c.name, "?")
		called = append(called, c.method+" "+path)
		if c.method == "GET" && c.name == "opml" { // it is no JSON
			if r := b.ask("GET", apiPath+c.name, apiHeader, "1"); r.StatusCode != 200 {
				t.Errorf("%s %s: %d", c.method, c.name, r.StatusCode)
			}
			continue
		}
		if c.name == "events" { // it would not end
			if r := b.ask("GET", apiPath+c.name+"?after=last", apiHeader, "1"); r.StatusCode != http.StatusBadRequest {
				t.Errorf("%s %s: %d", c.method, c.name, r.StatusCode)
			}
			continue
		}
		var answer any
		if status := b.call(c.method, c.name, c.text, &answer); status != http.StatusOK {
			t.Errorf("%s %s: %d %v", c.method, c.name, status, answer)
		}
	}
	for _, c := range []struct{ method, name, text string }{
		{"POST", "searches", `{"query":"solar","once":true}`}, {"GET", "searches", ""},
		{"POST", "searches/end", `{"query":"http://node/k/` + b.server.keywordTokens.token(0) + `.atom"}`},
	} {
		called = append(called, c.method+" "+c.name)
		r := b.send(request(c.method, searchesPath+"api/"+c.name, strings.NewReader(c.text), "Authorization", "Bearer "+memoryToken, "Content-Type", "application/json"))
		answer := body(b, r)
		if r.StatusCode != http.StatusOK {
			t.Errorf("%s %s: %d %s", c.method, c.name, r.StatusCode, answer)
		}
		checkAPI(t, c.method, c.name, c.text, r.StatusCode, answer)
	}
	for _, text := range []string{`{"id":"n"}`, `{"id":"n","never_expires":false}`, `{"id":"n","max_searches":7,"name":"another"}`} {
		var answer any
		if status := b.call("POST", "tokens/change", text, &answer); status != http.StatusBadRequest {
			t.Errorf("tokens/change %s: %d %v", text, status, answer)
		}
	}
	called = append(called, "POST tokens/revoke")
	var revoked any
	if status := b.call("POST", "tokens/revoke", `{"id":"n"}`, &revoked); status != http.StatusOK {
		t.Errorf("tokens/revoke: %d %v", status, revoked)
	}
	for path, route := range searchesRoutes {
		for _, method := range route.may {
			served = append(served, method+" "+strings.TrimPrefix(path, searchesPath+"api/"))
		}
	}
	for name, route := range apiRoutes {
		for _, method := range route.methods {
			served = append(served, method+" "+name)
		}
	}
	for path, operations := range at(apiDocument().object, "paths") {
		for method := range operations.(object) {
			if method != "parameters" && method != "servers" {
				described = append(described, strings.ToUpper(method)+" "+path[1:])
			}
		}
	}
	slices.Sort(called)
	slices.Sort(served)
	if slices.Sort(described); !slices.Equal(served, described) {
		t.Errorf("openapi.json describes\n%q, and the node serves\n%q", described, served)
	}
	if !slices.Equal(served, called) {
		t.Errorf("this test calls\n%q, and the node serves\n%q", called, served)
	}
}

// Each schema of the document has the fields of the Go type of its name, with their types and with a description.
func TestOpenAPIDescribesAllFields(t *testing.T) {
	type Event struct{ news.EventJSON }
	want := map[string]object{}
	for _, v := range []any{
		AddressRequest{}, DoctorResponse{}, Draft{}, ErrorResponse{}, ImportProgress{}, ImportResult{}, ListResponse{}, OpenResponse{}, Publisher{}, PublishResult{},
		Status{}, SubscribeMessage{}, Watch{}, WatchResponse{}, TokensResponse{}, SearchesResponse{}, Event{}, NotifyResponse{}, DeadResponse{}, CandidatesResponse{},
	} {
		addSchema(want, reflect.TypeOf(v))
	}
	got := at(apiDocument().object, "components", "schemas")
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if want[name] == nil {
			t.Errorf("openapi.json has the schema %s, and no answer or request is of such a type", name)
		}
	}
	for name, w := range want {
		g := at(got, name)
		var required []string
		list, _ := g["required"].([]any)
		for _, field := range list {
			required = append(required, field.(string))
		}
		if slices.Sort(required); !slices.Equal(required, w["required"].([]string)) {
			t.Errorf("openapi.json: %s requires %q, want %q", name, required, w["required"])
		}
		properties, fieldTypes := at(g, "properties"), at(w, "properties")
		for field := range properties {
			if fieldTypes[field] == nil {
				t.Errorf("openapi.json: %s has %s, which the Go type lacks", name, field)
			}
		}
		for field, fieldType := range fieldTypes {
			p := maps.Clone(at(properties, field))
			if p["description"] == nil {
				t.Errorf("openapi.json: %s.%s is not described", name, field)
			}
			for _, more := range []string{"description", "enum", "readOnly", "writeOnly"} {
				delete(p, more)
			}
			if text := toJSON(t, p); text != toJSON(t, fieldType) {
				t.Errorf("openapi.json: %s.%s is %s, want %s", name, field, text, toJSON(t, fieldType))
			}
		}
	}
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// addSchema adds the schema of a struct, and of all structs in it, by the names of their types. Fields that are never left
// out are required.
func addSchema(to map[string]object, structure reflect.Type) {
	if to[structure.Name()] != nil {
		return
	}
	var required []string
	properties := object{}
	schema := object{"properties": properties}
	to[structure.Name()] = schema // before its fields, which may contain it
	for _, f := range reflect.VisibleFields(structure) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || f.Anonymous || !f.IsExported() {
			continue
		}
		property := propertyOf(to, f.Type)
		if options == "" {
			required = append(required, name)
		} else if f.Type == reflect.TypeFor[[]byte]() {
			property["type"] = "string" // a nil slice is left out
		}
		properties[name] = property
	}
	slices.Sort(required)
	schema["required"] = required
}

// propertyOf returns the schema of a field.
func propertyOf(to map[string]object, t reflect.Type) object {
	const ref = "#/components/schemas/"
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[locale.Text](), t == reflect.TypeFor[Warning]():
		return object{"type": "string"}
	case t == reflect.TypeFor[json.RawMessage]():
		return object{"type": "object"}
	case t == reflect.TypeFor[[]byte]():
		return object{"type": []string{"string", "null"}, "contentEncoding": "base64"}
	}
	switch t.Kind() {
	case reflect.Struct:
		addSchema(to, t)
		return object{"$ref": ref + t.Name()}
	case reflect.Pointer:
		p := propertyOf(to, t.Elem())
		if kind, ok := p["type"]; ok {
			p["type"] = []any{kind, "null"}
		}
		return p
	case reflect.Slice:
		items := propertyOf(to, t.Elem())
		if t.Elem() == reflect.TypeFor[[]byte]() {
			items["type"] = "string"
		}
		return object{"type": "array", "items": items}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": propertyOf(to, t.Elem())}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer"}
	case reflect.Uint64:
		return object{"type": "integer", "minimum": 0}
	case reflect.String:
		return object{"type": "string"}
	}
	panic("openapi.json: no schema for " + t.String())
}

// An independent validator accepts the document that the node serves.
func TestOpenAPIIsValid(t *testing.T) {
	program := filepath.Join(npmPackage(t, "@seriousme/openapi-schema-validator"), "bin/validate-api-cli.js")
	node, err := exec.LookPath("node")
	if err != nil {
		checktest.Lacks(t, "node is not installed, which runs the validator: %v", err)
	}
	served := body(t, newTestServer(t).ask("GET", apiPath+"openapi.json", apiHeader, "1"))
	for doc, want := range map[string]string{served: `"valid": true`, strings.Replace(served, `"responses":`, `"answers":`, 1): `"valid": false`} {
		file := filepath.Join(t.TempDir(), "openapi.json")
		if err := os.WriteFile(file, []byte(doc), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(node, program, file).CombinedOutput(); !strings.Contains(string(out), want) {
			t.Errorf("%v: not %s: %s", err, want, out)
		}
	}
}
