package daemon

import (
	"errors"
	"strings"
	"testing"

	"tidings/proxy"
)

func TestInvalidPublicationIsShownInTheStatus(t *testing.T) {
	t.Parallel()
	m := running(t, founding(t, "garbage"))
	m.awaitMembers(t, 1)
	if _, err := m.Push(t.Context(), []byte("garbage")); !errors.Is(err, proxy.ErrItem) {
		t.Errorf("%v", err)
	}
	s, err := m.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Refused) != 1 || !strings.Contains(s.Refused[0].Why, "not a publication") || s.Refused[0].At == nil {
		t.Errorf("%+v", s.Refused)
	}
}
