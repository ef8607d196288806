CREATE TABLE aliases (
	old_name VARCHAR(200) NOT NULL, 
	new_name VARCHAR(200) NOT NULL, 
	made DOUBLE NOT NULL, 
	PRIMARY KEY (old_name)
);
CREATE TABLE arena_models (
	id INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	added_at VARCHAR(32) NOT NULL, 
	withdrawn_at VARCHAR(32), 
	checksum BIGINT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (name)
);
CREATE TABLE arena_texts (
	id INTEGER NOT NULL, 
	digest BLOB, 
	commitment BLOB NOT NULL, 
	salt BLOB, 
	content BLOB, 
	checksum BIGINT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (digest)
);
CREATE TABLE assaymark_schema (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT assaymark_schema_pkc PRIMARY KEY (version_num)
);
INSERT INTO "assaymark_schema" VALUES('0017');
CREATE TABLE assignments (
	id INTEGER NOT NULL, 
	rater INTEGER NOT NULL, 
	position INTEGER NOT NULL, 
	prompt INTEGER NOT NULL, 
	model_a TEXT NOT NULL, 
	model_b TEXT NOT NULL, 
	expected VARCHAR(16), 
	checksum BIGINT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (rater, position), 
	FOREIGN KEY(rater) REFERENCES study_raters (id)
);
CREATE TABLE attempts (
	run INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	status VARCHAR(16) NOT NULL, 
	started_at VARCHAR(32) NOT NULL, 
	ended_at VARCHAR(32), 
	host VARCHAR(255) NOT NULL, 
	process_id BIGINT NOT NULL, 
	command BLOB, 
	facts BLOB NOT NULL, 
	summary BLOB, 
	checksum BIGINT NOT NULL, 
	PRIMARY KEY (run, number), 
	FOREIGN KEY(run) REFERENCES runs (id)
);
CREATE TABLE battle_skips (
	token VARCHAR(64) NOT NULL, 
	skipped_at DOUBLE NOT NULL, 
	checksum BIGINT NOT NULL, 
	PRIMARY KEY (token)
);
CREATE TABLE battles (
	id INTEGER NOT NULL, 
	token VARCHAR(64) NOT NULL, 
	opened_at DOUBLE NOT NULL, 
	voter VARCHAR(64) NOT NULL, 
	origin VARCHAR(64) NOT NULL, 
	mode VARCHAR(16) NOT NULL, 
	source TEXT NOT NULL, 
	prompt_id TEXT NOT NULL, 
	category TEXT, 
	model_a BIGINT NOT NULL, 
	model_b BIGINT NOT NULL, 
	is_swapped SMALLINT NOT NULL, 
	prompt BIGINT NOT NULL, 
	answer_a BIGINT NOT NULL, 
	answer_b BIGINT NOT NULL, 
	checksum BIGINT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (token)
);
CREATE TABLE estimates (
	run INTEGER NOT NULL, 
	position INTEGER NOT NULL, 
	task TEXT NOT NULL, 
	metric TEXT NOT NULL, 
	filter TEXT NOT NULL, 
	value DOUBLE, 
	low DOUBLE, 
	high DOUBLE, 
	method TEXT NOT NULL, 
	n BIGINT NOT NULL, 
	n_failed BIGINT NOT NULL, 
	n_unparsed BIGINT NOT NULL, 
	stderr DOUBLE, 
	chance DOUBLE, 
	higher_is_better SMALLINT NOT NULL, 
	confidence DOUBLE NOT NULL, 
	kind VARCHAR(32) NOT NULL, 
	is_primary SMALLINT NOT NULL, 
	n_shots INTEGER, 
	unit VARCHAR(32), 
	details BLOB NOT NULL, 
	checksum BIGINT NOT NULL, 
	PRIMARY KEY (run, position), 
	FOREIGN KEY(run) REFERENCES runs (id)
);
CREATE TABLE fact_sets (
	run_task INTEGER NOT NULL, 
	metric TEXT, 
	filter TEXT, 
	is_share SMALLINT NOT NULL, 
	reached_index INTEGER NOT NULL, 
	reached_turn INTEGER NOT NULL, 
	is_complete SMALLINT NOT NULL, 
	checksum BIGINT NOT NULL, 
	PRIMARY KEY (run_task), 
	FOREIGN KEY(run_task) REFERENCES run_tasks (id)
);
CREATE TABLE flag_replies (
	id VARCHAR(16) NOT NULL, 
	flag VARCHAR(16) NOT NULL, 
	writer VARCHAR(128) NOT NULL, 
	role VARCHAR(16) NOT NULL, 
	text TEXT NOT NULL, 
	made DOUBLE NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(flag) REFERENCES flags (id)
);
CREATE TABLE flags (
	id VARCHAR(16) NOT NULL, 
	model VARCHAR(200) NOT NULL, 
	kind VARCHAR(32) NOT NULL, 
	text TEXT NOT NULL, 
	reporter VARCHAR(128) NOT NULL, 
	made DOUBLE NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	settled_by VARCHAR(128), 
	settled DOUBLE, 
	PRIMARY KEY (id)
);
CREATE TABLE jobs (
	id VARCHAR(16) NOT NULL, 
	submission VARCHAR(16) NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	submitter VARCHAR(128) NOT NULL, 
	turn BIGINT NOT NULL, 
	position DOUBLE NOT NULL, 
	created DOUBLE NOT NULL, 
	not_before DOUBLE NOT NULL, 
	epoch BIGINT NOT NULL, 
	owner TEXT NOT NULL, 
	expires DOUBLE NOT NULL, 
	n_attempts INTEGER NOT NULL, 
	started DOUBLE, 
	first_started DOUBLE, 
	ended DOUBLE, 
	fault VARCHAR(8), 
	reason TEXT, 
	log_tail TEXT, 
	run_id VARCHAR(64), 
	n_done BIGINT NOT NULL, 
	n_total BIGINT NOT NULL, 
	stage VARCHAR(32) NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (submission, kind), 
	FOREIGN KEY(submission) REFERENCES submissions (id)
);
CREATE TABLE models_seen (
	model VARCHAR(200) NOT NULL, 
	revision VARCHAR(80) NOT NULL, 
	content_hash VARCHAR(80) NOT NULL, 
	facts TEXT NOT NULL, 
	seen DOUBLE NOT NULL, 
	PRIMARY KEY (model, revision)
);
CREATE TABLE moderation (
	number BIGINT NOT NULL, 
	made DOUBLE NOT NULL, 
	moderator VARCHAR(128) NOT NULL, 
	action VARCHAR(32) NOT NULL, 
	subject VARCHAR(200) NOT NULL, 
	detail TEXT NOT NULL, 
	hash VARCHAR(80) NOT NULL, 
	PRIMARY KEY (number)
);
CREATE TABLE outputs (
	request INTEGER NOT NULL, 
	ask_index INTEGER NOT NULL, 
	repeat INTEGER NOT NULL, 
	attempt INTEGER NOT NULL, 
	total_nats DOUBLE, 
	is_greedy SMALLINT, 
	text BLOB, 
	reasoning BLOB, 
	tool_calls BLOB, 
	finish_reason VARCHAR(64), 
	n_context_tokens INTEGER NOT NULL, 
	n_tokens INTEGER NOT NULL, 
	n_cut_tokens INTEGER NOT NULL, 
	cache_key BLOB, 
	from_cache SMALLINT NOT NULL, 
	error BLOB, 
	error_kind VARCHAR(64), 
	checksum BIGINT NOT NULL, call BLOB, 
	PRIMARY KEY (request, ask_index, repeat), 
	FOREIGN KEY(request) REFERENCES requests (id)
)
 WITHOUT ROWID

;
CREATE TABLE queue_votes (
	submission VARCHAR(16) NOT NULL, 
	voter VARCHAR(128) NOT NULL, 
	made DOUBLE NOT NULL, 
	PRIMARY KEY (submission, voter), 
	FOREIGN KEY(submission) REFERENCES submissions (id)
);
CREATE TABLE rating_batches (
	sequence BIGINT NOT NULL, 
	hash BLOB NOT NULL, 
	published_at DOUBLE NOT NULL, 
	checksum BIGINT NOT NULL, 
	PRIMARY KEY (sequence)
);
CREATE TABLE requests (
	id INTEGER NOT NULL, 
	run_task INTEGER NOT NULL, 
	sample_index INTEGER NOT NULL, 
	turn INTEGER NOT NULL, 
	content_hash BLOB NOT NULL, 
	sample_sha256 BLOB NOT NULL, 
	n_outputs INTEGER NOT NULL, 
	pieces TEXT NOT NULL, 
	form BIGINT NOT NULL, 
	sample_row BIGINT, 
	checksum BIGINT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (run_task, sample_index, turn), 
	FOREIGN KEY(run_task) REFERENCES run_tasks (id)
);
CREATE TABLE revoked_tokens (
	token VARCHAR(64) NOT NULL, 
	revoked DOUBLE NOT NULL, 
	PRIMARY KEY (token)
);
CREATE TABLE run_facts (
	run INTEGER NOT NULL, 
	model TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	model_hash TEXT, 
	revision TEXT, 
	dtype TEXT NOT NULL, 
	numerics TEXT NOT NULL, 
	n_parameters BIGINT, 
	max_length BIGINT, 
	profile TEXT NOT NULL, 
	seed BIGINT, 
	sample_limit DOUBLE, 
	chat_template TEXT, 
	prompt_style TEXT, 
	prompt_preset TEXT, 
	has_system_instruction SMALLINT NOT NULL, 
	audit TEXT, 
	n_tasks INTEGER NOT NULL, 
	n_samples BIGINT NOT NULL, 
	checksum BIGINT NOT NULL, 
	PRIMARY KEY (run), 
	FOREIGN KEY(run) REFERENCES runs (id)
);
CREATE TABLE run_leases (
	run INTEGER NOT NULL, 
	attempt INTEGER NOT NULL, 
	epoch BIGINT NOT NULL, 
	owner TEXT NOT NULL, 
	expires DOUBLE NOT NULL, 
	checksum BIGINT NOT NULL, 
	PRIMARY KEY (run), 
	FOREIGN KEY(run) REFERENCES runs (id)
);
CREATE TABLE run_tasks (
	id INTEGER NOT NULL, 
	run INTEGER NOT NULL, 
	position INTEGER NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	checksum BIGINT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (run, name), 
	FOREIGN KEY(run) REFERENCES runs (id)
);
CREATE TABLE runs (
	id INTEGER NOT NULL, 
	run_id VARCHAR(64) NOT NULL, 
	"key" BLOB NOT NULL, 
	"plan" BLOB NOT NULL, 
	status VARCHAR(16) NOT NULL, 
	created_at VARCHAR(32) NOT NULL, 
	updated_at VARCHAR(32) NOT NULL, 
	summary BLOB, 
	extra BLOB, 
	seal TEXT, 
	checksum BIGINT NOT NULL, visibility VARCHAR(16), 
	PRIMARY KEY (id), 
	UNIQUE (run_id), 
	UNIQUE ("key")
);
CREATE TABLE sample_facts (
	run_task INTEGER NOT NULL, 
	sample_index INTEGER NOT NULL, 
	turn INTEGER NOT NULL, 
	status VARCHAR(16), 
	score DOUBLE, 
	correct DOUBLE, 
	is_wrong SMALLINT NOT NULL, 
	category TEXT, 
	n_shots INTEGER NOT NULL, 
	n_leaked_shots INTEGER NOT NULL, 
	n_truncated_tokens INTEGER NOT NULL, 
	n_at_limit INTEGER NOT NULL, 
	snippet TEXT NOT NULL, 
	checksum BIGINT NOT NULL, 
	PRIMARY KEY (run_task, sample_index, turn), 
	FOREIGN KEY(run_task) REFERENCES run_tasks (id)
)
 WITHOUT ROWID

;
CREATE TABLE scores (
	request INTEGER NOT NULL, 
	scoring INTEGER NOT NULL, 
	value DOUBLE, 
	status VARCHAR(16) NOT NULL, 
	parts BLOB, 
	detail BLOB, 
	checksum BIGINT NOT NULL, 
	PRIMARY KEY (request, scoring), 
	FOREIGN KEY(request) REFERENCES requests (id)
)
 WITHOUT ROWID

;
CREATE TABLE scorings (
	id INTEGER NOT NULL, 
	run_task INTEGER NOT NULL, 
	scoring_hash BLOB NOT NULL, 
	filter VARCHAR(255) NOT NULL, 
	metric VARCHAR(255) NOT NULL, 
	sequence INTEGER NOT NULL, 
	checksum BIGINT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (run_task, scoring_hash, filter, metric), 
	FOREIGN KEY(run_task) REFERENCES run_tasks (id)
);
CREATE TABLE sealed_copies (
	run_task INTEGER NOT NULL, 
	dataset_hash VARCHAR(128) NOT NULL, 
	checksum BIGINT NOT NULL, 
	PRIMARY KEY (run_task, dataset_hash), 
	FOREIGN KEY(run_task) REFERENCES run_tasks (id)
);
CREATE TABLE sealed_rows (
	dataset_hash VARCHAR(128) NOT NULL, 
	digest_key VARCHAR(64) NOT NULL, 
	content BLOB NOT NULL, 
	checksum BIGINT NOT NULL, 
	PRIMARY KEY (dataset_hash)
);
CREATE TABLE sealed_tasks (
	dataset_hash VARCHAR(128) NOT NULL, 
	task TEXT NOT NULL, 
	content BLOB NOT NULL, 
	checksum BIGINT NOT NULL, 
	PRIMARY KEY (dataset_hash)
);
CREATE TABLE search_sets (
	run INTEGER NOT NULL, 
	n_requests INTEGER NOT NULL, 
	checksum BIGINT NOT NULL, 
	PRIMARY KEY (run), 
	FOREIGN KEY(run) REFERENCES runs (id)
);
CREATE TABLE span_sources (
	project BIGINT NOT NULL, 
	digest BLOB NOT NULL, 
	body BLOB NOT NULL, 
	PRIMARY KEY (project, digest)
);
CREATE TABLE spans (
	project BIGINT NOT NULL, 
	trace_id BLOB NOT NULL, 
	span_id BLOB NOT NULL, 
	parent_id BLOB, 
	name TEXT NOT NULL, 
	started BIGINT NOT NULL, 
	ended BIGINT, 
	is_error SMALLINT NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	model TEXT, 
	n_input BIGINT, 
	n_output BIGINT, 
	cost DOUBLE, 
	user TEXT, 
	session TEXT, 
	service TEXT, 
	version TEXT, 
	response_id TEXT, 
	search_key BIGINT NOT NULL, 
	n_conflicts INTEGER NOT NULL, 
	received DOUBLE NOT NULL, 
	source BLOB NOT NULL, 
	digest BLOB NOT NULL, 
	body BLOB NOT NULL, 
	PRIMARY KEY (project, trace_id, span_id)
);
CREATE TABLE studies (
	id INTEGER NOT NULL, 
	name VARCHAR(64) NOT NULL, 
	"plan" BLOB NOT NULL, 
	created_at DOUBLE NOT NULL, 
	checksum BIGINT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (name)
);
CREATE TABLE study_answers (
	assignment INTEGER NOT NULL, 
	answers TEXT NOT NULL, 
	answered_at DOUBLE NOT NULL, 
	seconds DOUBLE, 
	checksum BIGINT NOT NULL, 
	PRIMARY KEY (assignment), 
	FOREIGN KEY(assignment) REFERENCES assignments (id)
);
CREATE TABLE study_demographics (
	rater INTEGER NOT NULL, 
	content BLOB NOT NULL, 
	checksum BIGINT NOT NULL, 
	PRIMARY KEY (rater), 
	FOREIGN KEY(rater) REFERENCES study_raters (id)
);
CREATE TABLE study_raters (
	id INTEGER NOT NULL, 
	study INTEGER NOT NULL, 
	name VARCHAR(64) NOT NULL, 
	token_hash BLOB NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	consented_at DOUBLE, 
	checksum BIGINT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (study, name), 
	FOREIGN KEY(study) REFERENCES studies (id), 
	UNIQUE (token_hash)
);
CREATE TABLE submissions (
	id VARCHAR(16) NOT NULL, 
	submitter VARCHAR(128) NOT NULL, 
	board VARCHAR(64) NOT NULL, 
	model VARCHAR(200) NOT NULL, 
	revision VARCHAR(80) NOT NULL, 
	source VARCHAR(16) NOT NULL, 
	content_hash VARCHAR(80) NOT NULL, 
	precision VARCHAR(16) NOT NULL, 
	preset VARCHAR(64), 
	weights VARCHAR(16) NOT NULL, 
	base VARCHAR(200), 
	base_revision VARCHAR(80), 
	kind VARCHAR(16) NOT NULL, 
	facts TEXT NOT NULL, 
	submitted DOUBLE NOT NULL, 
	duplicate_key VARCHAR(80), 
	n_votes INTEGER NOT NULL, 
	is_withdrawn SMALLINT NOT NULL, 
	reported_run VARCHAR(64), 
	verdict TEXT, 
	is_verified SMALLINT NOT NULL, checksum BIGINT, 
	PRIMARY KEY (id), 
	UNIQUE (duplicate_key)
);
CREATE TABLE swe_attempts (
	"key" VARCHAR(64) NOT NULL, 
	instance_id TEXT NOT NULL, 
	model TEXT NOT NULL, 
	patch_sha VARCHAR(64) NOT NULL, 
	exit_status VARCHAR(64) NOT NULL, 
	n_calls INTEGER NOT NULL, 
	cost DOUBLE, 
	ended DOUBLE NOT NULL, 
	trajectory BLOB NOT NULL, 
	checksum BIGINT NOT NULL, 
	PRIMARY KEY ("key")
);
CREATE TABLE swe_checks (
	instance_sha VARCHAR(64) NOT NULL, 
	environment_sha VARCHAR(64) NOT NULL, 
	instance_id TEXT NOT NULL, 
	is_runnable SMALLINT NOT NULL, 
	reason TEXT NOT NULL, 
	seconds DOUBLE NOT NULL, 
	checked DOUBLE NOT NULL, 
	checksum BIGINT NOT NULL, 
	PRIMARY KEY (instance_sha, environment_sha)
);
CREATE TABLE swe_gradings (
	instance_sha VARCHAR(64) NOT NULL, 
	patch_sha VARCHAR(64) NOT NULL, 
	environment_sha VARCHAR(64) NOT NULL, 
	instance_id TEXT NOT NULL, 
	outcome VARCHAR(32) NOT NULL, 
	reason TEXT NOT NULL, 
	seconds DOUBLE NOT NULL, 
	graded DOUBLE NOT NULL, 
	patch BLOB NOT NULL, 
	details BLOB NOT NULL, 
	log BLOB NOT NULL, 
	checksum BIGINT NOT NULL, 
	PRIMARY KEY (instance_sha, patch_sha, environment_sha)
);
CREATE TABLE texts (
	id INTEGER NOT NULL, 
	sha256 BLOB NOT NULL, 
	content BLOB NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (sha256)
);
CREATE TABLE trace_alarm_epochs (
	alarm BIGINT NOT NULL, 
	epoch INTEGER NOT NULL, 
	first BIGINT NOT NULL, 
	reason VARCHAR(16) NOT NULL, 
	made DOUBLE NOT NULL, 
	source VARCHAR(16), 
	rule BIGINT, 
	rule_version BLOB, 
	low DOUBLE, 
	high DOUBLE, 
	quantile DOUBLE, 
	is_inherited SMALLINT NOT NULL, 
	n_watched BIGINT NOT NULL, 
	evidence DOUBLE NOT NULL, 
	state BLOB, 
	PRIMARY KEY (alarm, epoch)
);
CREATE TABLE trace_alarm_events (
	alarm BIGINT NOT NULL, 
	epoch INTEGER NOT NULL, 
	id VARCHAR(32) NOT NULL, 
	raised DOUBLE NOT NULL, 
	at BIGINT NOT NULL, 
	trace_id BLOB NOT NULL, 
	version TEXT, 
	n_watched BIGINT NOT NULL, 
	evidence DOUBLE NOT NULL, 
	threshold DOUBLE NOT NULL, 
	since BIGINT NOT NULL, 
	n_since BIGINT NOT NULL, 
	mean_before DOUBLE, 
	mean_after DOUBLE NOT NULL, 
	is_drop SMALLINT NOT NULL, 
	delivered DOUBLE, 
	n_tries INTEGER NOT NULL, 
	not_before DOUBLE NOT NULL, 
	failure TEXT, 
	PRIMARY KEY (alarm, epoch), 
	UNIQUE (id)
);
CREATE TABLE trace_alarm_values (
	alarm BIGINT NOT NULL, 
	position BIGINT NOT NULL, 
	trace_id BLOB NOT NULL, 
	epoch INTEGER NOT NULL, 
	at BIGINT NOT NULL, 
	value DOUBLE NOT NULL, 
	version TEXT, 
	PRIMARY KEY (alarm, position)
);
CREATE TABLE trace_alarms (
	id INTEGER NOT NULL, 
	project BIGINT NOT NULL, 
	name VARCHAR(128) NOT NULL, 
	metric TEXT NOT NULL, 
	n_metrics INTEGER NOT NULL, 
	alpha DOUBLE NOT NULL, 
	horizon BIGINT NOT NULL, 
	bound DOUBLE, 
	is_two_sided SMALLINT NOT NULL, 
	lower_is_better SMALLINT NOT NULL, 
	n_baseline INTEGER NOT NULL, 
	webhook TEXT, 
	signing_key TEXT, 
	allow_private SMALLINT NOT NULL, 
	made DOUBLE NOT NULL, 
	begins DOUBLE NOT NULL, 
	looked_until DOUBLE NOT NULL, 
	n_values BIGINT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE trace_dataset_rows (
	project BIGINT NOT NULL, 
	dataset VARCHAR(128) NOT NULL, 
	digest BLOB NOT NULL, 
	trace_id BLOB NOT NULL, 
	content BLOB NOT NULL, 
	added DOUBLE NOT NULL, 
	PRIMARY KEY (project, dataset, digest)
);
CREATE TABLE trace_projects (
	id INTEGER NOT NULL, 
	name VARCHAR(128) NOT NULL, 
	made DOUBLE NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (name)
);
CREATE TABLE trace_queue_claims (
	project BIGINT NOT NULL, 
	queue BIGINT NOT NULL, 
	trace_id BLOB NOT NULL, 
	rater VARCHAR(64) NOT NULL, 
	expires DOUBLE NOT NULL, 
	rated DOUBLE, 
	is_skipped SMALLINT NOT NULL, 
	PRIMARY KEY (project, queue, trace_id, rater)
);
CREATE TABLE trace_queue_items (
	project BIGINT NOT NULL, 
	queue BIGINT NOT NULL, 
	trace_id BLOB NOT NULL, 
	position BIGINT NOT NULL, 
	reason TEXT NOT NULL, 
	added DOUBLE NOT NULL, 
	is_done SMALLINT NOT NULL, 
	PRIMARY KEY (project, queue, trace_id)
);
CREATE TABLE trace_queues (
	id INTEGER NOT NULL, 
	project BIGINT NOT NULL, 
	name VARCHAR(128) NOT NULL, 
	rubric TEXT NOT NULL, 
	n_raters INTEGER NOT NULL, 
	made DOUBLE NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE trace_rules (
	id INTEGER NOT NULL, 
	project BIGINT NOT NULL, 
	name VARCHAR(128) NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	filter TEXT NOT NULL, 
	rate DOUBLE NOT NULL, 
	scorer TEXT NOT NULL, 
	score VARCHAR(128) NOT NULL, 
	judge TEXT, 
	judge_args TEXT, 
	version BLOB NOT NULL, 
	made DOUBLE NOT NULL, 
	begins DOUBLE NOT NULL, 
	ended_until DOUBLE NOT NULL, 
	open_until DOUBLE NOT NULL, scale VARCHAR(16), 
	PRIMARY KEY (id)
);
CREATE TABLE trace_scores (
	project BIGINT NOT NULL, 
	digest BLOB NOT NULL, 
	trace_id BLOB, 
	span_id BLOB, 
	response_id TEXT, 
	name TEXT NOT NULL, 
	value DOUBLE, 
	label TEXT, 
	explanation TEXT, 
	error TEXT, 
	observed BIGINT NOT NULL, 
	received DOUBLE NOT NULL, source VARCHAR(16), rule BIGINT, rule_version BLOB, rate DOUBLE, stale DOUBLE, session TEXT, rater VARCHAR(64), correction TEXT, 
	PRIMARY KEY (project, digest)
);
CREATE TABLE trace_scorings (
	project BIGINT NOT NULL, 
	rule BIGINT NOT NULL, 
	trace_id BLOB NOT NULL, 
	rate DOUBLE NOT NULL, 
	seen DOUBLE NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	n_tries INTEGER NOT NULL, 
	not_before DOUBLE NOT NULL, 
	epoch INTEGER NOT NULL, 
	owner TEXT NOT NULL, 
	expires DOUBLE NOT NULL, 
	reason TEXT, 
	ended DOUBLE, 
	PRIMARY KEY (project, rule, trace_id)
);
CREATE TABLE trace_tokens (
	id VARCHAR(16) NOT NULL, 
	project INTEGER NOT NULL, 
	scope VARCHAR(16) NOT NULL, 
	digest BLOB NOT NULL, 
	made DOUBLE NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(project) REFERENCES trace_projects (id), 
	UNIQUE (digest)
);
CREATE TABLE traces (
	project BIGINT NOT NULL, 
	trace_id BLOB NOT NULL, 
	at BIGINT NOT NULL, 
	started BIGINT NOT NULL, 
	ended BIGINT, 
	name TEXT NOT NULL, 
	n_spans INTEGER NOT NULL, 
	n_errors INTEGER NOT NULL, 
	n_orphans INTEGER NOT NULL, 
	models TEXT NOT NULL, 
	n_input BIGINT, 
	n_output BIGINT, 
	cost DOUBLE, 
	user TEXT, 
	session TEXT, 
	service TEXT, 
	version TEXT, 
	n_bytes BIGINT NOT NULL, 
	received DOUBLE NOT NULL, n_unpriced INTEGER, 
	PRIMARY KEY (project, trace_id)
);
CREATE TABLE vote_head (
	id INTEGER NOT NULL, 
	sequence BIGINT NOT NULL, 
	hash BLOB NOT NULL, 
	checksum BIGINT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "vote_head" VALUES(1,0,X'0000000000000000000000000000000000000000000000000000000000000000',2747634856);
CREATE TABLE votes (
	sequence BIGINT NOT NULL, 
	battle INTEGER NOT NULL, 
	idempotency_key VARCHAR(64) NOT NULL, 
	cast_at DOUBLE NOT NULL, 
	choice VARCHAR(16) NOT NULL, 
	mark_a VARCHAR(16), 
	mark_b VARCHAR(16), 
	is_counted SMALLINT NOT NULL, 
	hash BLOB NOT NULL, 
	checksum BIGINT NOT NULL, 
	PRIMARY KEY (sequence), 
	UNIQUE (battle), 
	FOREIGN KEY(battle) REFERENCES battles (id), 
	UNIQUE (idempotency_key)
);
CREATE INDEX outputs_by_cache_key ON outputs (cache_key) WHERE cache_key IS NOT NULL AND error IS NULL;
CREATE INDEX estimates_by_task ON estimates (task, metric, filter);
CREATE INDEX sample_facts_narrow ON sample_facts (run_task, sample_index, turn, is_wrong, category);
CREATE INDEX submissions_by_submitter ON submissions (submitter, submitted);
CREATE INDEX submissions_by_model ON submissions (model);
CREATE INDEX jobs_in_order ON jobs (state, position, created, id);
CREATE INDEX jobs_by_submitter ON jobs (submitter, turn);
CREATE INDEX jobs_by_end ON jobs (state, ended);
CREATE INDEX jobs_started_by_turn ON jobs (turn) WHERE first_started IS NOT NULL;
CREATE INDEX flags_by_model ON flags (model);
CREATE INDEX flag_replies_by_flag ON flag_replies (flag, made);
CREATE INDEX battles_of_origin ON battles (origin, opened_at);
CREATE INDEX battles_of_voter ON battles (voter, opened_at);
CREATE INDEX spans_by_search_key ON spans (search_key);
CREATE INDEX spans_by_response ON spans (project, response_id);
CREATE INDEX traces_by_time ON traces (project, at);
CREATE INDEX traces_by_session ON traces (project, session);
CREATE INDEX traces_by_arrival ON traces (project, received);
CREATE INDEX trace_scores_by_trace ON trace_scores (project, trace_id);
CREATE INDEX trace_scores_by_response ON trace_scores (project, response_id);
CREATE INDEX trace_scores_by_span ON trace_scores (project, span_id);
CREATE INDEX trace_scores_by_session ON trace_scores (project, session);
CREATE INDEX trace_scores_by_name ON trace_scores (project, name, observed);
CREATE INDEX trace_rules_by_project ON trace_rules (project);
CREATE INDEX trace_scorings_by_state ON trace_scorings (state, not_before);
CREATE INDEX trace_scorings_by_trace ON trace_scorings (project, trace_id);
CREATE INDEX trace_queues_by_project ON trace_queues (project);
CREATE INDEX trace_queue_items_by_trace ON trace_queue_items (project, trace_id);
CREATE UNIQUE INDEX trace_alarms_by_name ON trace_alarms (project, name, metric);
CREATE UNIQUE INDEX trace_alarm_values_by_trace ON trace_alarm_values (alarm, trace_id);
CREATE INDEX trace_scores_by_arrival ON trace_scores (project, name, received);
CREATE INDEX trace_scores_by_time ON trace_scores (project, observed);
CREATE INDEX swe_gradings_by_patch ON swe_gradings (patch_sha, instance_sha);
CREATE INDEX swe_attempts_by_patch ON swe_attempts (patch_sha, instance_id);
