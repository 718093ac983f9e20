package rolling

import "testing"

// written is two puts of one key, one after the other.
func written() ([]operation, watched) {
	return []operation{
			{client: 0, request: request{kind: put, key: 1, value: "a"}, response: response{revision: 2}, called: 1, ended: 2},
			{client: 0, request: request{kind: put, key: 1, value: "b"}, response: response{revision: 3}, called: 3, ended: 4},
		}, watched{
			2: {{key: 1, value: "a"}},
			3: {{key: 1, value: "b"}},
		}
}

func read(revision int64, read cell, called, ended int64) operation {
	r := response{revision: revision}
	r.cells[1] = read
	return operation{client: 1, request: request{kind: get, key: 1}, response: r, called: called, ended: ended}
}

func judge(operations []operation, log watched) error {
	history, err := settle(operations, log)
	if err != nil {
		return err
	}
	return linearizable(history)
}

// TestModel checks the checker.
func TestModel(t *testing.T) {
	first, second := cell{"a", 2, 1}, cell{"b", 3, 2}
	failed := operation{client: 2, request: request{kind: put, key: 2, value: "c"}, failed: true, called: 1, ended: 9}
	cases := []struct {
		name  string
		more  []operation
		log   watched
		right bool
	}{
		{"a read of the last write", []operation{read(3, second, 5, 6)}, nil, true},
		{"a read beside a write", []operation{read(2, first, 3, 6)}, nil, true},
		{"a stale read", []operation{read(2, first, 5, 6)}, nil, false},
		{"a read of what is not there", []operation{read(3, first, 5, 6)}, nil, false},
		{"a read of the wrong revision", []operation{read(2, second, 5, 6)}, nil, false},
		{"a failed write without effect", []operation{failed}, nil, true},
		{"a failed write with an effect", []operation{failed}, watched{4: {{key: 2, value: "c"}}}, true},
		{"an effect that nobody asked for", nil, watched{4: {{key: 2, value: "c"}}}, false},
		{
			"a write that was lost",
			[]operation{{request: request{kind: put, key: 3, value: "d"}, response: response{revision: 4}, called: 5, ended: 6}},
			nil, false,
		},
		{
			"a swap of an older value",
			[]operation{{
				request:  request{kind: swap, key: 1, value: "d", expected: 2},
				response: response{revision: 4, swapped: true}, called: 5, ended: 6,
			}},
			watched{4: {{key: 1, value: "d"}}}, false,
		},
		{
			"a removal",
			[]operation{
				{request: request{kind: remove, key: 1, value: "d"}, response: response{revision: 4}, called: 5, ended: 6},
				read(4, cell{}, 7, 8),
			},
			watched{4: {{key: 1, deleted: true}, {key: mark, value: "d"}}}, true,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			operations, log := written()
			for revision, changes := range c.log {
				log[revision] = changes
			}
			if err := judge(append(operations, c.more...), log); (err == nil) != c.right {
				t.Fatalf("it was judged %v", err)
			}
		})
	}
	if gap := (watched{2: {{}}, 4: {{}}}).gap(4); gap != 3 {
		t.Fatalf("the gap at 3 was taken for one at %d", gap)
	}
}
