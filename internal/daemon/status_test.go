package daemon

import (
	"strings"
	"testing"
)

func TestAddressOfReadersIsOneThatTheyCanOpen(t *testing.T) {
	for _, c := range []struct {
		address, base, want string
		refuses             bool // readers on other machines
	}{
		{"127.0.0.1:8190", "", "http://127.0.0.1:8190/", false},
		{"[::1]:8190", "", "http://[::1]:8190/", false},
		{"[::]:8190", "", "http://127.0.0.1:8190/", true},
		{"0.0.0.0:8190", "", "http://127.0.0.1:8190/", true},
		{"10.0.0.7:8190", "", "http://10.0.0.7:8190/", true},
		{"[::]:8190", "http://nas.example:8190", "http://nas.example:8190/", false},
	} {
		f := served(c.address, c.base)
		if f.What != "feed readers are served at "+c.want || strings.Contains(f.Do, "--base-url") != c.refuses {
			t.Errorf("%+v", f)
		}
	}
}
