"""A CSV or JSONL file as a task: the recognised columns, and the notes about them."""

import gzip
import json
from pathlib import Path

import pytest

import assaymark
from assaymark.cli.main import main
from assaymark.datasets.csv_files import delimiter_of
from assaymark.errors import DataError, UsageError
from assaymark.records import GenerateQuery, LoglikelihoodQuery, Output, RollingQuery
from assaymark.tasks.bound import BindOptions, BoundTask
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.own_rows import OwnData
from assaymark.tasks.python_tasks import bind


def opened(folder: Path, name: str, text: str) -> tuple[BoundTask, str]:
    """Write a file, select it, and return the bound task with its note."""
    (folder / name).write_text(text, encoding="utf-8")
    selection = Catalog.open(lm_eval=False).select([str(folder / name)])
    return bind(selection.tasks[0], BindOptions()), selection.notes[-1]


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("question,A,B,answer\nIs ice cold?,yes,no,A\nIs fire?,yes,no,\n", "line 3 has nothing in column 'answer'"),
        ("question,A,B,answer\nIs ice cold?,,no,B\n", "line 2 has nothing in column 'A'"),
        ("question,answer\n,4\n", "line 2 has nothing in column 'question'"),
        ("question,answer,note\n2+2?,4,#N/A\n3+3?,#REF!,x\n", "line 3 has '#REF!' in column 'answer', a spreadsheet"),
        ("question,A,B,C,answer\nWhich?,1,2,,A\n", "column 'C' .questions with fewer options: JSON lines with a list"),
        ("question,answer\n2+2?,4.0\n3+3?,nan\n", "line 3 has nothing in column 'answer'"),
    ],
)
def test_a_row_with_an_empty_cell_is_refused(tmp_path: Path, text: str, location: str) -> None:
    """No prompt contains the word None for an empty answer, option or question."""
    with pytest.raises(DataError, match=location):
        opened(tmp_path, "my.csv", text)


def test_words_for_missing_values_are_texts(tmp_path: Path) -> None:
    """`N/A`, `null` and `None` are options like others."""
    task, _ = opened(tmp_path, "my.csv", "question,A,B,answer\nWhich?,N/A,null,B\nAnd?,None,NA,A\n")
    assert [request.prompt for request in task.requests()] == [
        "Which?\nA. N/A\nB. null\nAnswer:",
        "And?\nA. None\nB. NA\nAnswer:",
    ]


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        (("B", "a"), "a letter"),
        (("1", "0"), "a number from 0"),
        (("2", "1"), "a number from 1"),
        (("1.0", "0.0"), "a number from 0"),  # a column that had an empty cell in pandas
        (("2.0", "1.0"), "a number from 1"),
        (("green", "red"), "the text of a choice"),
    ],
)
def test_choices_by_letter(tmp_path: Path, answers: tuple[str, str], kind: str) -> None:
    """The answer may be a letter, a number from 0 or 1, or the text of a choice; the note states which."""
    text = f"question,A,B,answer\nGrass?,red,green,{answers[0]}\nBlood?,red,blue,{answers[1]}\n"
    task, note = opened(tmp_path, "my.csv", text)
    first, second = task.requests()
    assert first.prompt == "Grass?\nA. red\nB. green\nAnswer:"
    assert [query.continuation for query in first.queries if isinstance(query, LoglikelihoodQuery)] == [" A", " B"]
    assert (first.target, second.target) == ("1", "0")
    assert note.startswith("my.csv: multiple choice by letter: 'question', choices A, B")
    assert note.endswith(kind)
    assert task.task.name == "my"


def golds(folder: Path, text: str, name: str = "my.csv", answers: str | None = None) -> list[str]:
    """Return the position of each question's correct option, as the file is read with `--answers`."""
    (folder / name).write_text(text, encoding="utf-8")
    own = OwnData(answers=answers)
    task = Catalog.open(lm_eval=False).select([str(folder / name)], own=own).tasks[0]
    bound = bind(task, BindOptions(skip_bad_rows=True))
    return [request.target for request in bound.requests()]


@pytest.mark.parametrize(
    ("lines", "positions"),
    [
        (["What is 1+1?,2,3,4,1,2"], ["0"]),
        (["2+2?,3,4,5,6,4"], ["1"]),
        (["What is 1+1?,2,3,4,1,2", "2+2?,3,4,5,6,4", "Which is odd?,2,4,6,7,7"], ["0", "1", "3"]),
        (["Which is a number?,one,two,3,four,3", "2+2?,3,4,5,6,4"], ["2", "1"]),  # columns of words and of numbers
        (["2+2?,3,4.5,5,4,4", "1+1?,2,3,1,0.5,2"], ["3", "0"]),
    ],
)
def test_numbers_that_are_an_options_text_are_that_text(tmp_path: Path, lines: list[str], positions: list[str]) -> None:
    """Answers that equal the text of exactly one option in every row are that text, also where they are numbers."""
    assert golds(tmp_path, "\n".join(["question,A,B,C,D,answer", *lines, ""])) == positions


AMBIGUOUS = [
    ("1,2,3", ("from_0", "from_1"), ("'1' is B, 'beta'", "'1' is A, 'alpha'")),  # no 0 and no 4
    ("1,2,9", ("from_0", "from_1"), ("'1' is B, 'beta'", "'1' is A, 'alpha'")),  # as above, with a row at fault
]


@pytest.mark.parametrize(("answers", "flags", "examples"), AMBIGUOUS)
def test_answers_with_two_readings_stop(
    tmp_path: Path, answers: str, flags: tuple[str, str], examples: tuple[str, str]
) -> None:
    """Numbers that fit both ways of counting are refused in one line with both, and --answers names one."""
    text = "question,A,B,C,D,answer\n" + "".join(f"Q{a}?,alpha,beta,gamma,delta,{a}\n" for a in answers.split(","))
    with pytest.raises(DataError) as caught:
        golds(tmp_path, text)
    message = str(caught.value)
    assert "can be read in two ways" in message
    assert "\n" not in message
    assert all(example in message for example in examples)
    assert message.endswith(f"--answers {flags[0]} or --answers {flags[1]}")
    if "9" not in answers:
        assert golds(tmp_path, text, answers="from_0") == ["1", "2", "3"]
        assert golds(tmp_path, text, answers="from_1") == ["0", "1", "2"]


def test_numbers_that_are_mostly_an_options_text_stop(tmp_path: Path) -> None:
    """One row whose answer is not an option does not turn the others' texts into positions."""
    text = "question,A,B,C,D,answer\n1+1?,2,3,4,1,2\n0+1?,5,1,3,2,1\n1+2?,3,2,4,1,3\n2+2?,3,5,6,7,4\n"
    with pytest.raises(DataError, match=r"as a number from 1 .*, or as the text of a choice"):
        golds(tmp_path, text)
    with pytest.raises(DataError, match="line 5: '4' in column 'answer' is none of the options"):
        golds(tmp_path, text, answers="text")


def test_whole_numbers_beside_options_that_are_texts_stop(tmp_path: Path) -> None:
    """In JSON the number 2 may be an index although an option is the text "2"; where both agree it is read."""
    row = {"question": "How many?", "choices": ["3", "2", "0", "1"], "answer": 2}
    zero = {"question": "None?", "choices": ["3", "2", "1", "0"], "answer": 0}
    text = "".join(json.dumps(each) + "\n" for each in (row, zero))
    with pytest.raises(DataError, match=r"as the text of a choice \('2' is B, '2'\), or as a number from 0 \('2' is C"):
        golds(tmp_path, text, "my.jsonl")
    assert golds(tmp_path, text, "my.jsonl", "text") == ["1", "3"]
    assert golds(tmp_path, text, "my.jsonl", "from_0") == ["2", "0"]
    same = [{"question": f"Q{i}", "choices": ["0", "1", "2"], "answer": i} for i in range(3)]
    assert golds(tmp_path, "".join(json.dumps(each) + "\n" for each in same), "same.jsonl") == ["0", "1", "2"]


def test_a_reading_is_named_only_for_rows_with_options(tmp_path: Path) -> None:
    """--answers is refused where it has no effect, and where a row does not fit it."""
    with pytest.raises(DataError, match="--answers says that an answer is a letter, and these rows have no options"):
        golds(tmp_path, "question,answer\n2+2?,4\n", answers="letter")
    with pytest.raises(DataError, match="line 2: 'A' in column 'answer' is not a number from 0 to 1"):
        golds(tmp_path, "question,A,B,answer\nQ?,x,y,A\n", answers="from_0")


@pytest.mark.parametrize("choices", [["x", "y", "z"], {"A": "x", "B": "y", "C": "z"}])
def test_indices_that_are_floats_are_indices(tmp_path: Path, choices: object) -> None:
    """JSON written by pandas has 1.0 for 1 where the column has an empty cell; 1.5 is none."""
    rows = [{"question": f"Q{answer}?", "choices": choices, "answer": answer} for answer in (2.0, 0.0, 1.0)]
    assert golds(tmp_path, "".join(json.dumps(row) + "\n" for row in rows), "my.jsonl") == ["2", "0", "1"]
    rows.append({**rows[0], "answer": 1.5})
    with pytest.raises(DataError, match=r"line 4: '1.5' in column 'answer' is not a number from 0 to 2"):
        opened(tmp_path, "my.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


def test_the_ending_of_a_file_may_be_in_capitals(tmp_path: Path) -> None:
    """Older programs on Windows write Q.CSV."""
    task, _ = opened(tmp_path, "Q.CSV", "question;answer\n2+2?;4\n")
    assert (task.task.name, [request.target for request in task.requests()]) == ("Q", ["4"])


def test_numbers_of_32_bits_are_refused(tmp_path: Path) -> None:
    """A reference 0.10000000149011612 makes 0.1 wrong; halves and whole numbers are exact."""
    import pyarrow as pa
    from pyarrow import parquet

    for numbers, is_exact in (([0.1, 2.0], False), ([0.5, 2.0], True)):
        table = pa.table({"question": ["a", "b"], "answer": pa.array(numbers, pa.float32())})
        parquet.write_table(table, tmp_path / "my.parquet")
        if is_exact:
            task = Catalog.open(lm_eval=False).select([str(tmp_path / "my.parquet")]).tasks[0]
            assert [request.target for request in bind(task, BindOptions()).requests()] == ["0.5", "2.0"]
            continue
        with pytest.raises(DataError, match=r"column 'answer' has 0.10000000149011612, a number of 32 bits"):
            Catalog.open(lm_eval=False).select([str(tmp_path / "my.parquet")])


def test_yes_is_true(tmp_path: Path) -> None:
    """An answer that is JSON's true or false is right in either word; texts are compared as they are."""
    rows = [{"question": "Is ice cold?", "answer": True}, {"question": "Is fire?", "answer": False}]
    task, note = opened(tmp_path, "my.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert "compared with 'answer', where yes is true and no is false" in note
    assert [request.target for request in task.requests()] == ["['True', 'Yes']", "['False', 'No']"]
    texts, note = opened(tmp_path, "texts.csv", "question,answer\nIs ice cold?,TRUE\n")
    assert ("yes" in note, next(texts.requests()).target) == (False, "TRUE")


def test_choices_by_text(tmp_path: Path) -> None:
    """A list column `choices` is scored by text."""
    row = {"question": "Sky?", "choices": ["blue", "red"], "answer": "blue"}
    task, note = opened(tmp_path, "my.jsonl", json.dumps(row) + "\n")
    (request,) = task.requests()
    assert request.prompt == "Question: Sky?\nAnswer:"
    assert [query.continuation for query in request.queries if isinstance(query, LoglikelihoodQuery)] == [
        " blue",
        " red",
    ]
    assert request.target == "0"
    assert "multiple choice by text" in note


def test_generated_answers(tmp_path: Path) -> None:
    """question,answer has a prompt with "Question:", prompt,reference the prompt unchanged."""
    task, note = opened(tmp_path, "qa.csv", "Question,Answer\nWho?,Me\n")
    (request,) = task.requests()
    assert request.prompt == "Question: Who?\nAnswer:"
    assert isinstance(request.queries[0], GenerateQuery)
    assert "compared with 'Answer'" in note
    task, _ = opened(tmp_path, "raw.jsonl", '{"prompt": "Say hi", "reference": "hi"}\n')
    assert next(task.requests()).prompt == "Say hi"


def test_texts(tmp_path: Path) -> None:
    """With only a column `text` the perplexity is measured."""
    task, note = opened(tmp_path, "t.tsv", "text\tid\nSome words\t1\n")
    assert next(task.requests()).queries == (RollingQuery(0, "Some words"),)
    assert "perplexity" in note


def test_shots_exclude_the_sample(tmp_path: Path) -> None:
    """Shots come from the same file, never the sample itself."""
    rows = "".join(f"Q{i}?,A{i}\n" for i in range(6))
    (tmp_path / "qa.csv").write_text("question,answer\n" + rows)
    (task,) = Catalog.open(lm_eval=False).select([str(tmp_path / "qa.csv")]).tasks
    requests = list(bind(task, BindOptions(num_fewshot=4)).requests())
    assert all(request.n_leaked_shots == 0 and request.n_shots == 4 for request in requests)


def test_the_hash_does_not_depend_on_the_folder(tmp_path: Path) -> None:
    """The same file elsewhere is the same task on the same data."""
    plans = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        plans.append(opened(tmp_path / folder, "qa.csv", "question,answer\nWho?,Me\n")[0].plan)
    assert plans[0] == plans[1]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.csv", "a,b\n1,2\n", "its columns are a, b; expected question,A,B,C,D,answer or"),
        ("x.jsonl", "\n", "has no rows"),
        ("x.csv", "question,the right one\n1,2\n", "its columns are question, the right one"),
        ("x.json", "{", r"cannot read .*x\.json"),
    ],
)
def test_unknown_columns_are_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    """The error lists the file's columns and the expected ones."""
    with pytest.raises(DataError, match=message):
        opened(tmp_path, name, text)


@pytest.mark.parametrize("sign", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(tmp_path: Path, sign: str) -> None:
    """Commas, semicolons, tabs and bars separate the columns, whatever the cells contain."""
    rows = [["prompt", "option_a", "option_b", "gold"], ['"Hot, cold; or | so?"', "yes", '"n,o"', "B"]]
    task, note = opened(tmp_path, "my.csv", "\n".join(sign.join(row) for row in rows) + "\n")
    (request,) = task.requests()
    assert request.prompt == "Hot, cold; or | so?\nA. yes\nB. n,o\nAnswer:"
    assert request.target == "1"
    assert "choices option_a, option_b, 'gold' is a letter" in note


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("prompt,option_a,option_b,gold", "Q,red,blue,B"),
        ("Question,Choice1,Choice2,Correct_Answer", "Q,red,blue,blue"),
        ("question,opa,opb,label", "Q,red,blue,1\nR,red,blue,0"),
        ("stem,option_1,option_2,answerKey", "Q,red,blue,2"),
    ],
)
def test_names_of_options_that_are_recognised(tmp_path: Path, header: str, row: str) -> None:
    """Options may be lettered or numbered under several names, the answer a letter, number or text."""
    task, _ = opened(tmp_path, "my.csv", f"{header}\n{row}\n")
    request = next(task.requests())
    assert (request.prompt, request.target) == ("Q\nA. red\nB. blue\nAnswer:", "1")


def test_ignored_columns_are_named(tmp_path: Path) -> None:
    """Columns that are not used are listed in the note."""
    _, note = opened(tmp_path, "my.csv", "id,question,answer,the source\n1,Q,A,x\n")
    assert note.endswith("ignored columns: id, the source")


def test_all_faults_are_listed_with_their_lines(tmp_path: Path) -> None:
    """Short and long lines, empty cells, answers that are no option and NULs are all reported at once, in order."""
    lines = [
        "question,A,B,answer",
        "Q1,x,y,A",
        "Q2,x,y",
        '"Q3',
        'more",x,,B',
        "Q4,x,y,E",
        "Q5,x,y,A,z",
        "Q6,x\0,y,A",
        "",
    ]
    with pytest.raises(DataError) as caught:
        opened(tmp_path, "my.csv", "\n".join(lines))
    faults = str(caught.value).partition(": ")[2]
    assert faults == (
        "line 3: 3 cells, but the header has 4; line 4 has nothing in column 'B'; "
        "line 6: 'E' in column 'answer' is not a letter from A to B; line 7: 5 cells, but the header has 4; "
        "line 8: the character NUL, which is not allowed in texts; correct them, "
        "skip them (--skip_bad_rows), or write a task file"
    )


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (r'"What is a \"b\" c",5', "a cell escapes quotes by backslashes; expected"),
        (r'"\"b\" is?",5', "escapes quotes by backslashes"),
        (r'"Who said ""no\"?",5', "escapes quotes by backslashes"),
        ('"Hamlet" is by?,5', "goes on after the closing one"),
        ('What?, "5, or so"', "has blanks before its quote"),
        ('What?, "5"', "has blanks before its quote"),
        ('What?,"5', "or has none"),
    ],
)
def test_quotes_that_a_reader_of_csv_would_drop_or_keep_are_refused(tmp_path: Path, cells: str, said: str) -> None:
    """Also in files of votes and labels. The first question would begin with "What is a", a backslash and "b"."""
    with pytest.raises(DataError, match=rf"my\.csv, line 2: .*{said}"):
        opened(tmp_path, "my.csv", f"question,answer\n{cells}\n")
    with pytest.raises(DataError, match=said):
        delimiter_of(tmp_path / "my.csv")


def test_quotes_around_and_within_cells_stay_as_they_are(tmp_path: Path) -> None:
    """Doubled ones, those of unquoted cells, and blanks after a closing quote."""
    text = 'question,answer\n"Is ""a, b"" \nfine?" ,5" pipe\nA "b" c?,"C:\\"\n'
    task, _ = opened(tmp_path, "my.csv", text)
    assert [(request.prompt, request.target) for request in task.requests()] == [
        ('Question: Is "a, b" \nfine? \nAnswer:', '5" pipe'),
        ('Question: A "b" c?\nAnswer:', "C:\\"),
    ]


@pytest.mark.parametrize(
    "coded", ["AT&amp;T", "caf\u00c3\u00a9", "it\u00e2\u20ac\u2122s", "5&nbsp;km", "\ufffd", "don&#39;t"]
)
def test_letters_that_are_codes_are_named(tmp_path: Path, coded: str) -> None:
    """Of a web page, of UTF-8 that was read as Windows-1252, or lost: no answer equals such a reference."""
    _, note = opened(tmp_path, "coded.csv", f"question,answer\nWho?,{coded}\nIs it A & B; café; Âge or ã?,Pão\n")
    assert f"; 1 text has letters as codes or of another encoding ('{coded}' in 'answer'): save the file" in note
    assert "several" not in note


@pytest.mark.parametrize("answer", ["2+2=4\n#### 4", "#### 4", r"So $x = 4$: \boxed{4}"])
def test_references_with_their_solution_are_named(tmp_path: Path, answer: str) -> None:
    """As GSM8K and MATH have them: an answer alone would be wrong."""
    rows = "".join(
        json.dumps({"question": f"{n}?", "answer": each}) + "\n" for n, each in enumerate((answer, r"\\boxed{5}"))
    )
    _, note = opened(tmp_path, "worked.jsonl", rows)
    assert (
        "; 1 reference has its answer after #### or in \\boxed{}, and only all of it is right: leave the answer" in note
    )


@pytest.mark.parametrize(
    "several", ["Lisbon/Lisboa", "4; four", "4 or four", "1/2 / 0.5", "Lisbon | Lisboa", '"[""4"", ""four""]"']
)
def test_references_that_look_like_several_answers_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], several: str
) -> None:
    """By `run` and `task check` both, with what to write; what may be one answer is compared as it is."""
    single = "".join(f"{answer}?,{answer}\n" for answer in ("1/2", "km/h", "2024/05/01", "https://a.b/or/c", "TCP/IP"))
    (tmp_path / "qa.csv").write_text(f"question,answer\n{single}Which?,{several}\n", encoding="utf-8")
    said = "; 1 reference looks like several answers ('" + several.strip('"').replace('""', '"')
    store = str(tmp_path / "runs.sqlite")
    for command in (["task", "check"], ["run", "--model", "fake", "--store", store, "--tasks"]):
        assert main([*command, str(tmp_path / "qa.csv")]) == 0
        out, err = capsys.readouterr()
        assert f"{said}'), and only all of it is right: where each is, write every reference as a list" in out + err
    _, note = opened(tmp_path, "single.csv", f"question,answer\n{single}")
    assert "several" not in note


def test_many_faults_are_counted(tmp_path: Path) -> None:
    """Of more than 20 faults the first 20 are listed and the others counted."""
    with pytest.raises(DataError, match=r"line 21 has nothing in column 'answer'; and 5 more; correct them"):
        opened(tmp_path, "my.csv", "question,answer\n" + "Q,\n" * 25)


def test_lines_of_json_at_fault_are_listed(tmp_path: Path) -> None:
    """All lines of a JSONL file that are no objects are reported at once."""
    with pytest.raises(DataError, match=r"line 2: .*; line 4 is 5, not an object"):
        opened(tmp_path, "my.jsonl", '{"question": "a", "answer": "b"}\n{"x": \n\n5\n')


ADD = {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}


def with_tools(**changes: object) -> str:
    """Return a line with tools."""
    row = {"question": "1?", "tools": [ADD], "calls": [{"name": "add", "arguments": {"a": 1}}]}
    return json.dumps({**row, **changes}) + "\n"


def test_questions_with_tools(tmp_path: Path) -> None:
    """Question, tools and expected calls make a task whose requests have tools; CSV holds them as JSON."""
    task, note = opened(tmp_path, "my.jsonl", with_tools() + with_tools(calls=[]))
    assert note == "my.jsonl: 'question' is asked with the functions in 'tools', the calls are compared with 'calls'"
    first, second = task.requests()
    assert [message.text for message in first.messages] == ["1?"]
    assert json.loads(first.tools or "")[0]["function"] == ADD
    assert (json.loads(first.target), second.target) == ([{"name": "add", "arguments": {"a": 1}}], "[]")
    cells = [json.dumps(each).replace('"', '""') for each in ([ADD], [{"add": {"a": [1]}}])]
    csv_task, _ = opened(tmp_path, "my.csv", f'prompt,tools,expected_calls\n1?,"{cells[0]}","{cells[1]}"\n')
    (request,) = csv_task.requests()
    assert (request.tools, request.target) == (first.tools, first.target)
    messages = [{"role": "user", "content": "1?"}]
    chat, _ = opened(tmp_path, "chat.jsonl", with_tools(messages=messages, question=None))
    assert next(chat.requests()).messages == first.messages


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (with_tools(tools=[{"title": "add"}]), "row 2: tool 1 has the name None; expected a JSON schema"),
        (with_tools(calls=[{"name": "sub"}]), "row 2: a call of sub is expected, which is not among its tools"),
        (with_tools(calls=3), "row 2: expected calls are 3; expected a list"),
        (with_tools(tools=None), "row 2: tools are None; expected a list"),
    ],
)
def test_faults_of_tools_are_listed_with_their_rows(tmp_path: Path, line: str, message: str) -> None:
    """They are found before a model is loaded."""
    with pytest.raises(DataError, match=message):
        opened(tmp_path, "my.jsonl", with_tools() + line)


def test_two_files_of_one_name_are_two_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of one name in different folders are all evaluated, named by the paths that tell them apart."""
    for folder in ("sub", "other/sub"):
        (tmp_path / folder).mkdir(parents=True)
    for n_rows, name in enumerate(("nums.csv", "sub/nums.csv", "other/sub/nums.csv"), 1):
        (tmp_path / name).write_text("question,answer\n" + "".join(f"{i}?,{i}\n" for i in range(n_rows)))
    monkeypatch.chdir(tmp_path)
    names = ["nums.csv", "sub/nums.csv", "other/sub/nums.csv"]
    selection = Catalog.open(lm_eval=False).select(names)
    assert [task.name for task in selection.tasks] == ["nums", "sub/nums", "other/sub/nums"]
    assert [bind(task, BindOptions()).plan.n_samples for task in selection.tasks] == [1, 2, 3]
    assert [note.partition(":")[0] for note in selection.notes] == names
    alone = Catalog.open(lm_eval=False).select([names[0]])
    assert selection.tasks[0].spec_hash == alone.tasks[0].spec_hash
    joined = Catalog.open(lm_eval=False).select([*names[1:], names[1]])
    assert [task.name for task in joined.tasks] == ["sub/nums", "other/sub/nums"]


def test_a_file_has_its_whole_name_without_its_ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that differ behind a dot are tasks of different names."""
    monkeypatch.chdir(tmp_path)
    files = ["e0.5.csv", "e0.7.csv", "e1.csv.gz", "v2.final.jsonl"]
    for name in files:
        rows = b'{"question": "1?", "answer": "1"}\n' if "jsonl" in name else b"question,answer\n1?,1\n"
        (tmp_path / name).write_bytes(gzip.compress(rows) if name.endswith(".gz") else rows)
    selection = Catalog.open(lm_eval=False).select(files)
    assert [task.name for task in selection.tasks] == ["e0.5", "e0.7", "e1", "v2.final"]


def test_equal_task_files_beside_different_data_are_refused(tmp_path: Path) -> None:
    """Of two equal task files whose data lie beside them, none is dropped without a word."""
    for n_rows, folder in enumerate(("a", "b"), 1):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "nums.csv").write_text("question,answer\n" + "1?,1\n" * n_rows)
        (tmp_path / folder / "nums.yaml").write_text(
            "task: nums\ndataset_path: csv\ndataset_kwargs: {data_files: {test: nums.csv}}\ntest_split: test\n"
            "output_type: generate_until\ndoc_to_text: '{{question}}'\ndoc_to_target: '{{answer}}'\n"
        )
    with pytest.raises(UsageError, match=r"two different tasks are called 'nums'.*evaluate them in separate runs"):
        Catalog.open(lm_eval=False).select([str(tmp_path / "a/nums.yaml"), str(tmp_path / "b/nums.yaml")])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("question,A,B,C,answer\nWhich?,x,x,y,x\nWhich?,x,w,y,w\n",
         "line 2: 'x' in column 'answer' is the text of 2 options"),
        ("question,A,B,answer\nWhich?,Seine,Rhine,Seine\nAnd?,Elbe,Oder,Elb\n",
         "line 3: 'Elb' in column 'answer' is none of the options 'Elbe', 'Oder'; nearest: 'Elbe'"),
    ],
)  # fmt: skip
def test_answers_that_name_no_one_option_are_refused(tmp_path: Path, text: str, said: str) -> None:
    """An answer that is the text of two options, or of none, is refused with its line, and the options listed."""
    with pytest.raises(DataError, match=said):
        opened(tmp_path, "my.csv", text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"question": "q", "choices": {"text": ["x", "y", "z"], "label": ["A", "B", "B"]}, "answerKey": "B"}',
         "a label twice"),
        ('{"question": "q", "choices": {"text": ["x", "y", "z"], "label": ["A", "B"]}, "answerKey": "B"}',
         "2 labels for 3 options"),
        ('{"question": "q", "choices": {"text": ["x", "y"], "label": ["1", "2"]}, "answerKey": 1}', "no label 1"),
        ('{"question": "q", "choices": ["cat", "cat ", "dog"], "answer": "B"}', "has the right option 2 times: 'cat '"),
        ('{"question": "q", "choices": ["a", "a", "b"], "answer": 0}', "has the right option 2 times"),
        ('{"question": "q", "answers": {"text": [], "answer_start": []}}', "nothing in column 'answers'"),
        ('{"question": "q", "answer": "a", "answer": "b"}', "the key 'answer' twice"),
    ],
)  # fmt: skip
def test_rows_whose_answer_would_be_a_guess_are_refused(tmp_path: Path, text: str, said: str) -> None:
    """Labels that are not the options' own, a right option that is there twice, no reference, and a key twice."""
    with pytest.raises(DataError, match=said):
        opened(tmp_path, "my.jsonl", text + "\n")


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("question,A,B,D,answer", "columns 'A', 'B', 'D', and no column 'C' in between"),
        ("question,A,C,D,answer", "columns 'A', 'C', 'D', and no column 'B' in between"),
        ("question,B,C,D,answer", "columns 'B', 'C', 'D', and no column 'A' in between"),
        ("question,Option A,Option B,Option D,answer", "and no column 'option_c' in between"),
        ("question,choice1,choice2,choice4,answer", "and no column 'choice3' in between"),
        ("question,option1,option2,option3,option10,answer", "'option10', and no column 'option4' in between"),
        (f"question,{','.join('ABCDEFGHIJK')},answer", "columns 'A' to 'K'; expected at most 10 options"),
        ("question,choice0,choice1,choice2,answer", "column 'choice0' is before 'choice1'"),
    ],
)
def test_options_with_a_gap_are_refused(tmp_path: Path, header: str, said: str) -> None:
    """No option is left out in silence, in any kind of file; a lone letter far from the options is no option."""
    names = header.split(",")
    row = dict(zip(names, ("q", *"xyz", *"abcdefgh"[: len(names) - 5], "x"), strict=True))
    with pytest.raises(DataError, match=rf"my.csv, line 1: .*{said}"):
        opened(tmp_path, "my.csv", f"{header}\n{','.join(row.values())}\n")
    with pytest.raises(DataError, match=rf"my.jsonl: .*{said}"):
        opened(tmp_path, "my.jsonl", json.dumps(row) + "\n")
    task, _ = opened(tmp_path, "fine.csv", "question,A,B,K,answer\nq,x,y,7,B\n")
    assert len(next(task.requests()).queries) == 2


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"A": "x", "B": "y", "answer": "A", "correct": "B"}, "'A' in column 'answer' and 'B' in column 'correct'"),
        ({"A": "x", "B": "y", "answer": "A", "label": 2}, "'A' in column 'answer' and '2' in column 'label'"),
        ({"A": "x", "B": "y", "answer": "x", "target": "y"}, "'x' in column 'answer' and 'y' in column 'target'"),
        ({"choices": ["x", "y"], "answer": 0, "gold": "y"}, "'0' in column 'answer' and 'y' in column 'gold'"),
        ({"answer": "Paris", "reference": "Rome"}, "'Paris' in column 'answer' and 'Rome' in column 'reference'"),
        ({"answer": 4, "target": 5}, "'4' in column 'answer' and '5' in column 'target'"),
    ],
)
def test_columns_of_answers_that_contradict_each_other_are_refused(
    tmp_path: Path, row: dict[str, object], said: str
) -> None:
    """The file, the row and both columns are named."""
    line = json.dumps({"question": "q", **row})
    with pytest.raises(DataError, match=rf"my.jsonl: line 1 has {said}"):
        opened(tmp_path, "my.jsonl", line + "\n")


@pytest.mark.parametrize(
    "row",
    [
        {"A": "x", "B": "y", "answer": "A", "label": 0},
        {"A": "x", "B": "y", "answer": "A", "label": 1},
        {"A": "x", "B": "y", "answer": "A", "correct": "x"},
        {"A": "x", "B": "y", "answer": "A", "label": "geography", "response": "B"},
        {"answer": "so it is #### 4", "target": 4},
        {"answer": "4", "target": 4.0},
        {"answer": ["Paris", "Lutetia"], "reference": "paris."},
        {"answer": "Paris", "label": "geography", "output": "Rome"},
        {"answer": "Paris", "expected": None},
    ],
)
def test_columns_of_answers_that_agree_or_are_something_else_are_read(tmp_path: Path, row: dict[str, object]) -> None:
    """A letter and its number are the same answer; a model's response and a kind of question are none."""
    task, note = opened(tmp_path, "my.jsonl", json.dumps({"question": "q", **row}) + "\n")
    assert next(task.requests()).prompt
    assert "'answer'" in note


def test_options_by_letter_are_listed_by_their_letters(tmp_path: Path) -> None:
    """In whatever order a row has them, `A` is the option of the letter A."""
    row = '{"question": "q", "options": {"B": "wrong", "A": "right"}, "answer": "A"}\n'
    (request,) = opened(tmp_path, "my.jsonl", row)[0].requests()
    assert "A. right\nB. wrong" in request.prompt
    assert request.target == "0"


def test_a_link_to_a_file_without_an_ending_is_read_by_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Hub's cache stores files by their hashes, and names them by links."""
    (tmp_path / "blob123").write_text("question,A,B,answer\nIs ice cold?,yes,no,A\n")
    (tmp_path / "questions.csv").symlink_to(tmp_path / "blob123")
    monkeypatch.chdir(tmp_path)
    run = assaymark.evaluate("fake", "questions.csv")
    assert run.estimate("questions").n == 1


def test_generated_answers_are_compared_by_what_carries_meaning(tmp_path: Path) -> None:
    """A lost decimal point, sign, `++` or `%` makes an answer wrong; a full stop and a space before a unit do not."""
    references = ("1.5", "-5", "2.5", "C++", "5°C", "50%")
    rows = [{"question": f"What is number {index}?", "answer": answer} for index, answer in enumerate(references)]
    task, note = opened(tmp_path, "nums.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    answers = dict(zip(references, ("15", "5", "2.5.", "C", "5 °C", "50"), strict=True))
    right = {
        sample.row["answer"]
        for sample, request in zip(task.samples(), task.requests(), strict=True)
        if task.score(request, sample, [Output(request.id, 0, text=answers[sample.row["answer"]])])[0].value
    }
    assert right == {"2.5", "5°C"}
    assert note.endswith("ignoring case, typography and marks at the end")


def lines(*rows: object) -> str:
    """Return rows as JSON lines."""
    return "".join(f"{json.dumps(row)}\n" for row in rows)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"choices": ["mat", "sun", "", ""], "answer": 0}, "line 1 has nothing in entry 3 of column 'choices'"),
        ({"choices": ["mat", None, "sun"], "answer": "A"}, "line 1 has nothing in entry 2 of column 'choices'"),
        ({"choices": ["mat", "  "], "answer": "mat"}, "line 1 has nothing in entry 2 of column 'choices'"),
        ({"choices": {"text": ["x", "y", None], "label": ["A", "B", "C"]}, "answer": "B"}, "nothing in entry 3"),
        ({"choices": {"A": "x", "B": None, "C": "y"}, "answer": "C"}, "line 1 has nothing in entry 2"),
        ({"choices": [{"text": "x"}, {"text": "y"}], "answer": "A"}, "line 1 has an object in entry 1"),
        ({"choices": ["x", ["y", "z"]], "answer": "A"}, "line 1 has a list in entry 2"),
        ({"choices": ["x", "y"], "answer": ["x"]}, "line 1 has a list in column 'answer'; expected one option"),
        ({"choices": "['x', 'y']", "answer": "x"}, "column 'choices' has .* expected a list of options"),
        ({"answer": {"name": "z"}}, "line 1 has an object in column 'answer'; expected a text, or a list of right"),
        ({"answer": ["z", None]}, "line 1 has nothing in entry 2 of column 'answer'"),
        ({"answer": []}, "line 1 has nothing in column 'answer'"),
        ({"question": {"text": "Who?"}, "answer": "x"}, "line 1 has an object in column 'question'; expected a text"),
        ({"question": ["Who?"], "answer": "x"}, "line 1 has a list in column 'question'"),
        ({"context": ["one", "two"], "answer": "x"}, "line 1 has a list in column 'context'"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, row: dict[str, object], said: str) -> None:
    """No option is empty or `None`, and no value is written as Python writes it."""
    with pytest.raises(DataError, match=said):
        opened(tmp_path, "my.jsonl", lines({"question": "Who?", **row}))


def test_options_of_another_form_are_refused(tmp_path: Path) -> None:
    """A row whose options are a text, where others have lists, is no question without options."""
    rows = [{"question": "Q?", "choices": choices, "answer": "x"} for choices in (["x", "y"], "x or y")]
    with pytest.raises(DataError, match="line 2 has a text in column 'choices'; expected the options of the other"):
        opened(tmp_path, "my.jsonl", lines(*rows))


def test_letters_without_an_option_at_the_end_are_not_options(tmp_path: Path) -> None:
    """A mapping by letter may end with nothing, as Parquet fills it; the number 0 is an option."""
    task, _ = opened(
        tmp_path,
        "my.jsonl",
        lines(
            {"question": "Which?", "choices": {"A": 0, "B": 1, "C": None}, "answer": "B"},
            {"question": "Who?", "choices": {"A": 2, "B": 3, "C": 4}, "answer": "C"},
        ),
    )
    assert [request.prompt for request in task.requests()] == [
        "Which?\nA. 0\nB. 1\nAnswer:",
        "Who?\nA. 2\nB. 3\nC. 4\nAnswer:",
    ]


@pytest.mark.parametrize("form", ["{}. ", "({}) ", "{})", "[{}] ", "{}: ", "{} - ", "{}、", "（{}）"])
@pytest.mark.parametrize("is_lower", [False, True])
def test_options_with_their_own_letters_are_not_lettered_twice(tmp_path: Path, form: str, is_lower: bool) -> None:
    """In lists, mappings and columns the prompt has one letter before each option, in rows without their own too."""
    letters = ["a", "b"] if is_lower else ["A", "B"]
    options = [form.format(letter) + text for letter, text in zip(letters, ("cat", "Dr. B. Dog"), strict=True)]
    expected = ["Which?\nA. cat\nB. Dr. B. Dog\nAnswer:", "Who?\nA. I\nB. we\nAnswer:"]
    rows = [("Which?", options, "B"), ("Who?", ["I", "we"], "A")]
    for made in (lambda texts: {"choices": texts}, lambda texts: {"choices": dict(zip("AB", texts, strict=True))},
                 lambda texts: dict(zip("AB", texts, strict=True))):  # fmt: skip
        text = lines(*({"question": question, **made(texts), "answer": answer} for question, texts, answer in rows))
        task, _ = opened(tmp_path, "my.jsonl", text)
        assert [request.prompt for request in task.requests()] == expected


@pytest.mark.parametrize(
    ("rows", "right"),
    [
        ([{"answer": ["Rome", "Roma"]}, {"answer": "Oslo"}], [["Rome", "Roma"], ["Oslo"]]),
        ([{"answer": "Oslo"}, {"answer": ["Rome", "Roma"]}], [["Oslo"], ["Rome", "Roma"]]),
        ([{"answer": {"value": "Rome", "aliases": ["Roma"]}}], [["Rome", "Roma"]]),
        ([{"answers": {"text": ["Rome", "Roma"], "answer_start": [0, 9]}}], [["Rome", "Roma"]]),
        ([{"answer": "['Rome', 'Roma']"}, {"answer": '["Oslo"]'}], [["Rome", "Roma"], ["Oslo"]]),
        ([{"answer": "[1, 2]"}, {"answer": "['Oslo']"}], ["[1, 2]", "['Oslo']"]),
    ],
)
def test_aliases_are_references(tmp_path: Path, rows: list[dict[str, object]], right: list[object]) -> None:
    """A list of texts, TriviaQA's and SQuAD's answers are references any of which is right; other texts are texts."""
    task, note = opened(tmp_path, "my.jsonl", lines(*({"question": "Which?", **row} for row in rows)))
    for request, sample, texts in zip(task.requests(), task.samples(), right, strict=True):
        for text in texts if isinstance(texts, list) else [texts]:
            output = Output(request.id, 0, text=str(text))
            assert [score.value for score in task.score(request, sample, [output])] == [1.0]
        wrong = Output(request.id, 0, text="elsewhere")
        assert [score.value for score in task.score(request, sample, [wrong])] == [0.0]
    assert ("any of whose texts is right" in note) == isinstance(right[0], list)


def test_what_precedes_a_question_is_a_chat(tmp_path: Path) -> None:
    """LLaMA-Factory's system and history are messages before the question, in rows that have them."""
    alpaca: list[dict[str, object]] = [
        {
            "instruction": 'Is 1 < "2"?',
            "input": "Say it.",
            "output": "yes",
            "system": "Be brief.",
            "history": [["Hi", "Yo"]],
        },
        {"instruction": "Sky?", "input": "", "output": "blue", "system": "", "history": []},
    ]
    task, note = opened(tmp_path, "my.jsonl", lines(*alpaca))
    first, second = ([(m.role, m.text) for m in request.messages] for request in task.requests())
    assert first == [("system", "Be brief."), ("user", "Hi"), ("assistant", "Yo"), ("user", 'Is 1 < "2"?\n\nSay it.')]
    assert second == [("user", "Sky?")]
    assert "'instruction' after 'system' and 'history' is a chat" in note
    assert [request.target for request in task.requests()] == ["yes", "blue"]
    turns = [{"from": "human", "value": "Hi?"}, {"from": "gpt", "value": "Yo"}]
    task, _ = opened(tmp_path, "chat.jsonl", lines({"conversations": turns, "system": "Be brief.", "tools": ""}))
    (request,) = task.requests()
    assert [(m.role, m.text) for m in request.messages] == [("system", "Be brief."), ("user", "Hi?")]
    with pytest.raises(DataError, match="column 'tools' has functions for the model, and no column has the expected"):
        opened(tmp_path, "tools.jsonl", lines({"conversations": turns, "tools": '[{"name": "f"}]'}))
    for history in ([{"role": "user", "content": "Hi"}], [["Hi", "Yo", "?"]], [["Hi", None]]):  # not pairs of texts
        with pytest.raises(DataError, match=r"line 1 has .* in column 'history'; expected a list of pairs of texts"):
            opened(tmp_path, "turns.jsonl", lines({**alpaca[0], "history": history}))
    plain = [{**row, "system": "", "history": []} for row in alpaca]
    task, _ = opened(tmp_path, "plain.jsonl", lines(*plain))
    assert not next(task.requests()).messages


def test_a_chat_beside_another_answer_says_that_its_own_is_left_out(tmp_path: Path) -> None:
    """A logged answer of a model and the reference may both be there; the note says which one counts."""
    chat = [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "5"}]
    task, note = opened(tmp_path, "my.jsonl", lines({"messages": chat, "answer": "4"}))
    assert "compared with 'answer' (its own last answer is left out)" in note
    (request,) = task.requests()
    assert (request.target, [message.text for message in request.messages]) == ("4", ["2+2?"])
    assert "left out" not in opened(tmp_path, "asked.jsonl", lines({"messages": chat[:1], "answer": "4"}))[1]


def test_a_developers_message_is_a_system_message(tmp_path: Path) -> None:
    """OpenAI's newer role is read as the older one, by which templates know it."""
    messages = [{"role": role, "content": role} for role in ("developer", "user", "assistant")]
    task, _ = opened(tmp_path, "my.jsonl", lines({"messages": messages}))
    assert [message.role for message in next(task.requests()).messages] == ["system", "user"]


@pytest.mark.parametrize("line", ["sep=;\n", '"sep=;"\r\n', "\ufeffsep=;\n"])
def test_excels_line_that_states_the_delimiter_is_no_row(tmp_path: Path, line: str) -> None:
    """The file is read after it, and errors name the lines that the file has."""
    task, _ = opened(tmp_path, "my.csv", f"{line}question;answer\nOne, two, three?;4\n")
    assert [request.prompt for request in task.requests()] == ["Question: One, two, three?\nAnswer:"]
    with pytest.raises(DataError, match="line 4 has nothing in column 'answer'"):
        opened(tmp_path, "bad.csv", f"{line}question;answer\n1+1?;2\n2+2?;\n")


@pytest.mark.parametrize(
    "cells", [("02139", "501"), ("08:30", "9:15"), ("1E3", "7"), ("+1", "2"), ("TRUE", "FALSE"), ("7", "7.5"),
              ("25852016738884976640001", "1"), ("9007199254740993", "0.1"), ("1.50", "1.5")],
)  # fmt: skip
def test_cells_of_a_csv_file_stay_as_they_are_written(tmp_path: Path, cells: tuple[str, str]) -> None:
    """What would change as a number, a time or a truth value is a text, in questions, options and references."""
    text = "question,answer\n" + "".join(f"{cell} is?,{cell}\n" for cell in cells)
    bound, _ = opened(tmp_path, "asked.csv", text)
    assert [request.target for request in bound.requests()] == list(cells)
    (tmp_path / "chosen.csv").write_text(f"question,A,B,answer\nWhich?,{cells[0]},{cells[1]},A\n", encoding="utf-8")
    selection = Catalog.open(lm_eval=False).select([str(tmp_path / "chosen.csv")])
    [request] = bind(selection.tasks[0], BindOptions()).requests()
    assert f"A. {cells[0]}\nB. {cells[1]}\n" in request.prompt


@pytest.mark.parametrize("odd", ["test", "train"])
def test_cells_of_a_folder_of_csv_files_stay_as_they_are_written(tmp_path: Path, odd: str) -> None:
    """Also where the rows that are evaluated, or the shots alone, would change; a task file from `init` says so."""
    for split, number in (("test", "501"), ("train", "502")):
        code = f"00{number}" if split == odd else number
        (tmp_path / f"{split}.csv").write_text(f"question,answer\nCode of {split}?,{code}\n", encoding="utf-8")
    [task] = Catalog.open(lm_eval=False).select([str(tmp_path)]).tasks
    [request] = bind(task, BindOptions(num_fewshot=1)).requests()
    assert (request.target, "Answer: 00502" in request.prompt) == (("00501", False) if odd == "test" else ("501", True))
    assert task.spec["dataset_kwargs"] == {"dtype": "str"}


@pytest.mark.parametrize("place", ["x.xlsx", "files/x.xlsx"])
def test_a_table_of_another_program_is_no_data_set_of_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """The name of an Excel file in a folder has the form of a Hub id."""
    monkeypatch.chdir(tmp_path)
    Path(place).parent.mkdir(exist_ok=True)
    Path(place).write_bytes(b"PK")
    with pytest.raises(DataError, match=rf"cannot read rows of {place}; expected a file that ends with .csv, "):
        Catalog.open(lm_eval=False).select([place])
