package cases

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"quorate.test/conformance/process"
)

// post posts JSON that must be accepted, and gives the answer.
func (m *member) post(t *testing.T, path, body string) map[string]any {
	t.Helper()
	status, text := m.Post(path, body)
	if status != http.StatusOK {
		t.Fatalf("POST %s %s: %d %s", path, body, status, text)
	}
	return process.JSON(t, text)
}

func TestGatewayJSON(t *testing.T) {
	m := start(t)
	t.Run("Numbers", func(t *testing.T) {
		// "k" and "v" in base64.
		answer := m.post(t, "/v3/kv/put", `{"key":"aw==","value":"dg=="}`)
		header := answer["header"].(map[string]any)
		equal(t, "revision", header["revision"], any("2"))
		for _, id := range []string{"cluster_id", "member_id", "raft_term"} {
			if _, isText := header[id].(string); !isText {
				t.Fatalf("%s is no string: %v", id, header[id])
			}
		}
		answer = m.post(t, "/v3/kv/range", `{"key":"aw=="}`)
		kv := answer["kvs"].([]any)[0].(map[string]any)
		equal(t, "key", kv["key"], any("aw=="))
		equal(t, "value", kv["value"], any("dg=="))
		equal(t, "version", kv["version"], any("1"))
		equal(t, "count", answer["count"], any("1"))
		_, hasLease := kv["lease"]
		equal(t, "a lease of 0", hasLease, false)
		_, hasMore := answer["more"]
		equal(t, "more", hasMore, false)
	})
	t.Run("NumbersAsTextOrNot", func(t *testing.T) {
		for _, limit := range []string{`1`, `"1"`} {
			answer := m.post(t, "/v3/kv/range", `{"key":"AA==","range_end":"AA==","limit":`+limit+`}`)
			equal(t, "keys", len(answer["kvs"].([]any)), 1)
		}
	})
	t.Run("NamesInBothSpellings", func(t *testing.T) {
		for _, name := range []string{"range_end", "rangeEnd"} {
			answer := m.post(t, "/v3/kv/range", `{"key":"AA==","`+name+`":"AA=="}`)
			equal(t, "count", answer["count"], any("1"))
		}
	})
	t.Run("UnknownFieldsAndNull", func(t *testing.T) {
		answer := m.post(t, "/v3/kv/range", `{"key":"aw==","limit":null,"nobody":{"knows":[1,"it"]}}`)
		equal(t, "count", answer["count"], any("1"))
	})
	t.Run("Enums", func(t *testing.T) {
		for _, order := range []string{`"DESCEND"`, `2`} {
			m.post(t, "/v3/kv/range", `{"key":"aw==","sort_order":`+order+`}`)
		}
	})
	t.Run("ATxnThatFails", func(t *testing.T) {
		answer := m.post(t, "/v3/kv/txn",
			`{"compare":[{"key":"aw==","result":"EQUAL","target":"VERSION","version":"7"}],`+
				`"failure":[{"request_range":{"key":"aw=="}}]}`)
		_, has := answer["succeeded"]
		equal(t, "succeeded", has, false)
		response := answer["responses"].([]any)[0].(map[string]any)
		equal(t, "count", response["response_range"].(map[string]any)["count"], any("1"))
		answer = m.post(t, "/v3/kv/txn",
			`{"compare":[{"key":"aw==","result":"EQUAL","target":"VERSION","version":"1"}],"success":[]}`)
		equal(t, "succeeded", answer["succeeded"], any(true))
	})
	t.Run("Errors", func(t *testing.T) {
		for _, bad := range []struct {
			path, body string
			status     int
			code       float64
			message    string
		}{
			{"/v3/kv/range", `{}`, 400, 3, "etcdserver: key is not provided"},
			{"/v3/kv/range", `{"key":"aw==","revision":"100"}`, 400, 11,
				"etcdserver: mvcc: required revision is a future revision"},
			{"/v3/lease/revoke", `{"ID":"9"}`, 404, 5, "etcdserver: requested lease not found"},
			{"/v3/kv/nothing", `{}`, 404, 5, "Not Found"},
		} {
			status, text := m.Post(bad.path, bad.body)
			answer := process.JSON(t, text)
			equal(t, bad.body+" status", status, bad.status)
			equal(t, bad.body+" code", answer["code"], any(bad.code))
			equal(t, bad.body+" message", answer["message"], any(bad.message))
		}
		for _, body := range []string{`{`, `[]`, `{"key":7}`, `{"key":"not base64!"}`, `{"limit":"x"}`} {
			status, text := m.Post("/v3/kv/range", body)
			equal(t, body, status, 400)
			equal(t, body+" code", process.JSON(t, text)["code"], any(float64(3)))
		}
		status, _ := m.Get("/v3/kv/range")
		equal(t, "GET", status, 501)
	})
	t.Run("Leases", func(t *testing.T) {
		granted := m.post(t, "/v3/lease/grant", `{"TTL":"100","ID":"123"}`)
		equal(t, "ID", granted["ID"], any("123"))
		equal(t, "TTL", granted["TTL"], any("100"))
		left := m.post(t, "/v3/lease/timetolive", `{"ID":"123","keys":true}`)
		equal(t, "grantedTTL", left["grantedTTL"], any("100"))
		alive := m.post(t, "/v3/lease/keepalive", `{"ID":"123"}`)["result"].(map[string]any)
		equal(t, "TTL of a keep-alive", alive["TTL"], any("100"))
		unknown := m.post(t, "/v3/lease/timetolive", `{"ID":"124"}`)
		equal(t, "TTL of an unknown one", unknown["TTL"], any("-1"))
	})
	t.Run("Watch", func(t *testing.T) {
		client := http.Client{Timeout: 20 * time.Second}
		response, err := client.Post(m.URL+"/v3/watch", "application/json",
			strings.NewReader(`{"create_request":{"key":"dw==","watch_id":0}}`))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		lines := bufio.NewScanner(response.Body)
		next := func() map[string]any {
			t.Helper()
			if !lines.Scan() {
				t.Fatalf("the stream ended: %v", lines.Err())
			}
			var message map[string]any
			if err := json.Unmarshal(lines.Bytes(), &message); err != nil {
				t.Fatalf("%v in %q", err, lines.Text())
			}
			return message["result"].(map[string]any)
		}
		created := next()
		equal(t, "created", created["created"], any(true))
		_, has := created["watch_id"]
		equal(t, "watch_id 0", has, false)
		m.put(t, "w", "v")
		message := next()
		_, has = message["watch_id"]
		equal(t, "watch_id 0", has, false)
		event := message["events"].([]any)[0].(map[string]any)
		_, has = event["type"]
		equal(t, "the type of a put", has, false)
		equal(t, "key", event["kv"].(map[string]any)["key"], any("dw=="))
		m.remove(t, "w")
		event = next()["events"].([]any)[0].(map[string]any)
		equal(t, "the type of a delete", event["type"], any("DELETE"))
	})
}

func TestHTTPEndpoints(t *testing.T) {
	m := start(t)
	for _, endpoint := range []struct {
		path   string
		status int
		has    string
	}{
		{"/health", 200, `{"health":"true","reason":""}`},
		{"/health?serializable=true", 200, `{"health":"true","reason":""}`},
		{"/livez", 200, "ok"},
		{"/livez?verbose", 200, "[+]serializable_read ok"},
		{"/livez/serializable_read", 200, "ok"},
		{"/readyz", 200, "ok"},
		{"/readyz?verbose", 200, "[+]linearizable_read ok"},
		{"/readyz?verbose&exclude=linearizable_read", 200, "[+]serializable_read ok"},
		{"/readyz/data_corruption", 200, "ok"},
		{"/readyz/nothing", 404, "404 page not found"},
		{"/version", 200, `"etcdserver":"3.7.3","etcdcluster":"3.7.0"`},
		{"/metrics", 200, "etcd_server_has_leader 1"},
		{"/nothing", 404, "404 page not found"},
	} {
		t.Run(strings.NewReplacer("/", "_", "?", "_").Replace(endpoint.path), func(t *testing.T) {
			status, body := m.Get(endpoint.path)
			equal(t, "status", status, endpoint.status)
			if !strings.Contains(body, endpoint.has) {
				t.Fatalf("%q is not in %.2000q", endpoint.has, body)
			}
		})
	}
	t.Run("Post", func(t *testing.T) {
		status, _ := m.Post("/health", "")
		equal(t, "status", status, 405)
	})
}

// TestMetricNames has the names that etcd's dashboards and alerts query.
func TestMetricNames(t *testing.T) {
	m := start(t)
	m.put(t, "k", "v")
	m.openWatch(t)
	_, body := m.Get("/metrics")
	for _, name := range []string{
		"etcd_server_has_leader", "etcd_server_is_leader", "etcd_server_leader_changes_seen_total",
		"etcd_server_proposals_committed_total", "etcd_server_proposals_applied_total",
		"etcd_server_proposals_pending", "etcd_server_proposals_failed_total",
		"etcd_server_quota_backend_bytes", "etcd_server_health_success",
		"etcd_server_slow_apply_total", "etcd_server_slow_read_indexes_total",
		"etcd_disk_wal_fsync_duration_seconds_bucket", "etcd_disk_backend_commit_duration_seconds_bucket",
		"etcd_mvcc_db_total_size_in_bytes", "etcd_mvcc_db_total_size_in_use_in_bytes",
		"etcd_debugging_mvcc_keys_total",
		"etcd_debugging_mvcc_watcher_total", "etcd_debugging_mvcc_slow_watcher_total",
		"etcd_network_client_grpc_received_bytes_total", "etcd_network_client_grpc_sent_bytes_total",
		"etcd_cluster_version", "grpc_server_started_total", "grpc_server_handled_total",
		"process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds",
		"process_max_fds", "process_start_time_seconds",
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(body, "\n"+name) {
				t.Fatalf("no %s", name)
			}
		})
	}
}
