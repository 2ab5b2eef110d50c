package daemon

import (
	"errors"
	"strings"
	"testing"

	"tidings/proxy"
)

func TestGarbageThatIsPostedStandsInTheStatus(t *testing.T) {
	t.Parallel()
	m := running(t, founding(t, "garbage"))
	m.knows(t, 1)
	if _, err := m.Push(t.Context(), []byte("garbage")); !errors.Is(err, proxy.ErrInvalidItem) {
		t.Errorf("%v", err)
	}
	s, err := m.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(s.RejectedItems) != 1 || !strings.Contains(s.RejectedItems[0].Why, "not a publication") || s.RejectedItems[0].At == nil {
		t.Errorf("%+v", s.RejectedItems)
	}
}
