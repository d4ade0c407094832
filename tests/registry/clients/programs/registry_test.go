// franz-go's client of a registry and its serializer, against the registry of the environment's REGISTRY.
package registry

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
)

const (
	order = `{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}`
	noted = `{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},{"name":"note","type":"string","default":""}]}`
	other = `{"type":"record","name":"Order","fields":[{"name":"id","type":"string"}]}`
	line  = `{"type":"record","name":"Line","namespace":"shop","fields":[{"name":"amount","type":"int"}]}`
	cart  = `{"type":"record","name":"Cart","namespace":"shop","fields":[{"name":"line","type":"shop.Line"}]}`
	item  = "syntax = \"proto3\";\n\nmessage Item {\n  string name = 1;\n}\n"
)

func client(t *testing.T) (*sr.Client, context.Context) {
	t.Helper()
	// The client's own limit is five seconds, in which a busy machine may not have loaded what the first schema of a kind needs.
	patient := sr.HTTPClient(&http.Client{Timeout: 30 * time.Second})
	cl, err := sr.NewClient(sr.URLs(os.Getenv("REGISTRY")), patient)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return cl, ctx
}

func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func expect[T any](t *testing.T, what string, found, expected T) {
	t.Helper()
	if a, b := must[[]byte](t)(json.Marshal(found)), must[[]byte](t)(json.Marshal(expected)); string(a) != string(b) {
		t.Fatalf("%s: %s instead of %s", what, a, b)
	}
}

func expectCode(t *testing.T, err error, status, code int) {
	t.Helper()
	var refused *sr.ResponseError
	if !errors.As(err, &refused) || refused.StatusCode != status || refused.ErrorCode != code || refused.Message == "" {
		t.Fatalf("%v instead of %d, %d", err, status, code)
	}
}

func TestASchemaIsRegisteredAndFound(t *testing.T) {
	cl, ctx := client(t)
	first := must[sr.SubjectSchema](t)(cl.CreateSchema(ctx, "found/it", sr.Schema{Schema: order}))
	expect(t, "version", first.Version, 1)
	again := must[sr.SubjectSchema](t)(cl.CreateSchema(ctx, "found/it", sr.Schema{Schema: order}))
	expect(t, "the same schema", again, first)
	expect(t, "lookup", must[sr.SubjectSchema](t)(cl.LookupSchema(ctx, "found/it", sr.Schema{Schema: order})).ID, first.ID)
	expect(t, "by id", must[sr.Schema](t)(cl.SchemaByID(ctx, first.ID)).Schema, order)
	expect(t, "text by id", must[string](t)(cl.SchemaTextByID(ctx, first.ID)), order)
	expect(t, "by version", must[sr.SubjectSchema](t)(cl.SchemaByVersion(ctx, "found/it", -1)), first)
	expect(t, "text by version", must[string](t)(cl.SchemaTextByVersion(ctx, "found/it", 1)), order)
	expect(t, "versions", must[[]int](t)(cl.SubjectVersions(ctx, "found/it")), []int{1})
	expect(t, "usages", must[[]sr.SubjectSchema](t)(cl.SchemaUsagesByID(ctx, first.ID))[0].Schema.Schema, order)
	expect(t, "guid", must[sr.SubjectSchema](t)(cl.SchemaByGUID(ctx, first.GUID)).Schema.Schema, order)
	expect(t, "ids of the guid", must[[]sr.ContextID](t)(cl.SchemaIDsByGUID(ctx, first.GUID))[0].ID, first.ID)
	prefixed := sr.WithParams(ctx, sr.SubjectPrefix("found"))
	expect(t, "subjects", must[[]string](t)(cl.Subjects(prefixed)), []string{"found/it"})
	types := must[[]sr.SchemaType](t)(cl.SupportedTypes(ctx))
	slices.Sort(types)
	expect(t, "types", types, []sr.SchemaType{sr.TypeAvro, sr.TypeProtobuf, sr.TypeJSON})
	expect(t, "contexts", must[[]string](t)(cl.Contexts(ctx)), []string{"."})

	_, err := cl.SchemaByID(ctx, 99_999)
	expectCode(t, err, 404, sr.ErrSchemaNotFound.Code)
	_, err = cl.SchemaByVersion(ctx, "none", 1)
	expectCode(t, err, 404, sr.ErrSubjectNotFound.Code)
	_, err = cl.SchemaByVersion(ctx, "found/it", 9)
	expectCode(t, err, 404, sr.ErrVersionNotFound.Code)
	_, err = cl.CreateSchema(ctx, "found/it", sr.Schema{Schema: "{"})
	expectCode(t, err, 422, sr.ErrInvalidSchema.Code)
}

func TestRecordsAreEncodedWithTheIdOfTheirSchema(t *testing.T) {
	type Order struct {
		ID int64 `json:"id"`
	}
	cl, ctx := client(t)
	made := must[sr.SubjectSchema](t)(cl.CreateSchema(ctx, "serde-value", sr.Schema{
		Schema: `{"type":"object","properties":{"id":{"type":"integer"}}}`, Type: sr.TypeJSON,
	}))
	var serde sr.Serde
	serde.Register(made.ID, Order{}, sr.EncodeFn(json.Marshal), sr.DecodeFn(json.Unmarshal))
	data := must[[]byte](t)(serde.Encode(Order{7}))
	expect(t, "magic", data[0], 0)
	id, _, err := serde.DecodeID(data)
	expect(t, "the id in front", must[int](t)(id, err), made.ID)
	expect(t, "the bytes of it", int(binary.BigEndian.Uint32(data[1:])), made.ID)
	expect(t, "the type of the id", must[sr.Schema](t)(cl.SchemaByID(ctx, id)).Type, sr.TypeJSON)
	var read Order
	if err := serde.Decode(data, &read); err != nil {
		t.Fatal(err)
	}
	expect(t, "the record", read, Order{7})
}

func TestReferences(t *testing.T) {
	cl, ctx := client(t)
	base := must[sr.SubjectSchema](t)(cl.CreateSchema(ctx, "line", sr.Schema{Schema: line}))
	_, err := cl.CreateSchema(ctx, "cart", sr.Schema{Schema: cart})
	expectCode(t, err, 422, sr.ErrInvalidSchema.Code)
	references := []sr.SchemaReference{{Name: "shop.Line", Subject: "line", Version: base.Version}}
	made := must[sr.SubjectSchema](t)(cl.CreateSchema(ctx, "cart", sr.Schema{Schema: cart, References: references}))
	expect(t, "references", made.References, references)
	referrers := must[[]sr.SubjectSchema](t)(cl.SchemaReferences(ctx, "line", 1))
	expect(t, "referrers", referrers[0].Subject, "cart")
	_, err = cl.DeleteSubject(ctx, "line", sr.SoftDelete)
	expectCode(t, err, 422, sr.ErrReferenceExists.Code)
	expect(t, "protobuf", must[sr.SubjectSchema](t)(cl.CreateSchema(ctx, "item", sr.Schema{Schema: item, Type: sr.TypeProtobuf})).Type, sr.TypeProtobuf)
}

func TestCompatibility(t *testing.T) {
	cl, ctx := client(t)
	must[sr.SubjectSchema](t)(cl.CreateSchema(ctx, "strict", sr.Schema{Schema: order}))
	verbose := sr.WithParams(ctx, sr.Verbose)
	for _, version := range []int{-1, -2, 1} {
		expect(t, "compatible", must[sr.CheckCompatibilityResult](t)(cl.CheckCompatibility(ctx, "strict", version, sr.Schema{Schema: noted})).Is, true)
		refused := must[sr.CheckCompatibilityResult](t)(cl.CheckCompatibility(verbose, "strict", version, sr.Schema{Schema: other}))
		if refused.Is || len(refused.Messages) == 0 {
			t.Fatalf("%+v", refused)
		}
	}
	_, err := cl.CreateSchema(ctx, "strict", sr.Schema{Schema: other})
	expectCode(t, err, 409, 409)

	expect(t, "of all", cl.Compatibility(ctx)[0].Level, sr.CompatBackward)
	expectCode(t, cl.Compatibility(ctx, "strict")[0].Err, 404, sr.ErrSubjectLevelCompatibilityNotConfigured.Code)
	set := cl.SetCompatibility(ctx, sr.SetCompatibility{Level: sr.CompatNone}, "strict")[0]
	expect(t, "set", must[sr.CompatibilityLevel](t)(set.Level, set.Err), sr.CompatNone)
	expect(t, "of the subject", cl.Compatibility(ctx, "strict")[0].Level, sr.CompatNone)
	must[sr.SubjectSchema](t)(cl.CreateSchema(ctx, "strict", sr.Schema{Schema: other}))
	reset := cl.ResetCompatibility(ctx, "strict")[0]
	expect(t, "reset", must[sr.CompatibilityLevel](t)(reset.Level, reset.Err), sr.CompatNone)
	inForce := sr.WithParams(ctx, sr.DefaultToGlobal)
	expect(t, "in force", cl.Compatibility(inForce, "strict")[0].Level, sr.CompatBackward)

	readOnly := cl.SetMode(ctx, sr.ModeReadOnly, "strict")[0]
	expect(t, "mode", must[sr.Mode](t)(readOnly.Mode, readOnly.Err), sr.ModeReadOnly)
	_, err = cl.CreateSchema(ctx, "strict", sr.Schema{Schema: noted})
	expectCode(t, err, 422, sr.ErrOperationNotPermitted.Code)
	writable := cl.ResetMode(ctx, "strict")[0]
	expect(t, "former mode", must[sr.Mode](t)(writable.Mode, writable.Err), sr.ModeReadOnly)
}

func TestDeletions(t *testing.T) {
	cl, ctx := client(t)
	deleted := sr.WithParams(ctx, sr.ShowDeleted)
	for _, text := range []string{order, noted} {
		must[sr.SubjectSchema](t)(cl.CreateSchema(ctx, "old", sr.Schema{Schema: text}))
	}
	expectCode(t, cl.DeleteSchema(ctx, "old", 1, sr.HardDelete), 404, sr.ErrSchemaVersionNotSoftDeleted.Code)
	for _, how := range []sr.DeleteHow{sr.SoftDelete, sr.HardDelete} {
		if err := cl.DeleteSchema(ctx, "old", 1, how); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, "versions", must[[]int](t)(cl.SubjectVersions(deleted, "old")), []int{2})
	expect(t, "deleted softly", must[[]int](t)(cl.DeleteSubject(ctx, "old", sr.SoftDelete)), []int{2})
	_, err := cl.DeleteSubject(ctx, "old", sr.SoftDelete)
	expectCode(t, err, 404, sr.ErrSubjectSoftDeleted.Code)
	expect(t, "with deleted ones", must[[]int](t)(cl.SubjectVersions(deleted, "old")), []int{2})
	expect(t, "deleted permanently", must[[]int](t)(cl.DeleteSubject(ctx, "old", sr.HardDelete)), []int{2})
	_, err = cl.SubjectVersions(deleted, "old")
	expectCode(t, err, 404, sr.ErrSubjectNotFound.Code)
}
