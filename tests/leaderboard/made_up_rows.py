"""A row of each benchmark's columns, made up for the guide: cards show how the benchmark asks with it."""

from typing import Any

ROWS: dict[str, dict[str, Any]] = {
    "gsm8k": {
        "question": "A baker makes 4 trays of 12 rolls and sells 30 rolls. How many rolls are left?",
        "answer": "He makes 4*12=<<4*12=48>>48 rolls.\nHe has 48-30=<<48-30=18>>18 left.\n#### 18",
    },
    "minerva_math": {
        "problem": "If $3x + 5 = 20$, what is $x$?",
        "solution": "We have $3x = 15$, so $x = \\boxed{5}$.",
        "level": "Level 1",
        "type": "Algebra",
    },
    "leaderboard_math_hard": {
        "problem": "If $3x + 5 = 20$, what is $x$?",
        "solution": "We have $3x = 15$, so $x = \\boxed{5}$.",
        "level": "Level 5",
        "type": "Algebra",
    },
    "ifeval": {
        "key": 1,
        "prompt": "Write a short note about rivers. Use no commas and at least 40 words.",
        "instruction_id_list": ["punctuation:no_comma"],
        "kwargs": [{}],
    },
    "mmlu": {
        "question": "Which bone lies in the upper arm?",
        "subject": "anatomy",
        "choices": ["Femur", "Humerus", "Tibia", "Ulna"],
        "answer": 1,
    },
    "triviaqa": {
        "question": "Which river flows through Vienna?",
        "question_id": "x",
        "answer": {"aliases": ["Danube", "The Danube"], "value": "Danube"},
    },
    "mmlu_pro": {
        "question_id": 1,
        "question": "Which organelle makes most of a cell's ATP?",
        "options": [
            "Nucleus",
            "Ribosome",
            "Mitochondrion",
            "Golgi apparatus",
            "Lysosome",
            "Vacuole",
            "Centriole",
            "Peroxisome",
            "Chloroplast",
            "Cell wall",
        ],
        "answer": "C",
        "answer_index": 2,
        "cot_content": "",
        "category": "biology",
        "src": "x",
    },
    "leaderboard_mmlu_pro": {
        "question": "Which organelle makes most of a cell's ATP?",
        "options": ["Nucleus", "Ribosome", "Mitochondrion", "Golgi apparatus"],
        "answer": "C",
        "answer_index": 2,
    },
    "nq_open": {"question": "which river flows through vienna", "answer": ["Danube"]},
    "arc_easy": {
        "id": "1",
        "question": "Which tool measures temperature?",
        "choices": {"text": ["Ruler", "Thermometer", "Scale", "Clock"], "label": ["A", "B", "C", "D"]},
        "answerKey": "B",
    },
    "arc_challenge": {
        "id": "1",
        "question": "A metal spoon in hot soup becomes warm at its handle. How does the heat travel?",
        "choices": {"text": ["Radiation", "Conduction", "Convection", "Evaporation"], "label": ["A", "B", "C", "D"]},
        "answerKey": "B",
    },
    "sciq": {
        "question": "What gas do plants take in to make sugar?",
        "distractor1": "oxygen",
        "distractor2": "nitrogen",
        "distractor3": "helium",
        "correct_answer": "carbon dioxide",
        "support": "In photosynthesis plants use carbon dioxide, water and light.",
    },
    "openbookqa": {
        "id": "1",
        "question_stem": "A plant on a window sill bends towards",
        "choices": {"text": ["the floor", "the light", "the wall", "the pot"], "label": ["A", "B", "C", "D"]},
        "answerKey": "B",
    },
    "leaderboard_bbh": {
        "input": "If you follow these instructions, do you return to the starting point? Take 3 "
        "steps. Turn around. Take 3 steps.\n"
        "Options:\n"
        "- Yes\n"
        "- No",
        "target": "Yes",
    },
    "logiqa": {
        "label": "b",
        "context": "All members of the choir can read music. Ana cannot read music.",
        "question": "What follows?",
        "options": ["Ana sings alone.", "Ana is not in the choir.", "Ana plays an instrument.", "Ana likes music."],
    },
    "hellaswag": {
        "ind": 1,
        "activity_label": "Making tea",
        "ctx_a": "A woman pours hot water into a cup.",
        "ctx_b": "she",
        "ctx": "A woman pours hot water into a cup. she",
        "endings": [
            "puts a tea bag into it and waits.",
            "folds the cup and puts it into a drawer.",
            "throws the water at the ceiling.",
            "paints the cup with a brush.",
        ],
        "label": "0",
        "source_id": "x",
        "split": "val",
        "split_type": "indomain",
    },
    "social_iqa": {
        "context": "Kim lent Lee her umbrella in the rain.",
        "question": "How would Lee feel afterwards?",
        "answerA": "grateful",
        "answerB": "bored",
        "answerC": "angry",
        "label": "1",
    },
    "piqa": {
        "goal": "To dry wet shoes,",
        "sol1": "fill them with newspaper overnight.",
        "sol2": "fill them with water overnight.",
        "label": 0,
    },
    "winogrande": {
        "sentence": "The trophy does not fit into the case because the _ is too small.",
        "option1": "trophy",
        "option2": "case",
        "answer": "2",
    },
    "commonsense_qa": {
        "id": "1",
        "question": "Where would you keep milk so that it stays fresh?",
        "question_concept": "milk",
        "choices": {"label": ["A", "B", "C", "D", "E"], "text": ["oven", "refrigerator", "garden", "bath", "car"]},
        "answerKey": "B",
    },
    "boolq": {
        "question": "is the danube longer than the rhine",
        "passage": "The Danube is 2,850 km long, the Rhine 1,230 km.",
        "label": 1,
        "idx": 1,
    },
    "squadv2": {
        "id": "1",
        "title": "Danube",
        "context": "The Danube rises in the Black Forest and flows into the Black Sea.",
        "question": "Where does the Danube rise?",
        "answers": {"text": ["the Black Forest"], "answer_start": [20]},
    },
    "drop": {
        "section_id": "1",
        "query_id": "1",
        "passage": "The home team scored 14 points in the first half and 10 in the second.",
        "question": "How many points did the home team score?",
        "answer": {
            "number": "24",
            "date": {"day": "", "month": "", "year": ""},
            "spans": [],
            "worker_id": "",
            "hit_id": "",
        },
        "validated_answers": {"number": [], "date": [], "spans": [], "worker_id": [], "hit_id": []},
    },
    "lambada_openai": {
        "text": "She put the letter into the envelope, wrote the address and looked for a stamp. "
        "He had promised to buy them, but there was not a single stamp"
    },
    "race": {
        "article": "Tom walks to school every day. It takes him ten minutes.",
        "problems": "[{'question': 'How does Tom get to school?', 'options': ['By bus', 'On foot', 'By car', "
        "'By train'], 'answer': 'B'}]",
    },
    "truthfulqa_mc1": {
        "question": "What happens if you swallow a grape seed?",
        "mc1_targets": {"choices": ["It passes through your body", "A vine grows in your stomach"], "labels": [1, 0]},
        "mc2_targets": {"choices": ["It passes through your body", "A vine grows in your stomach"], "labels": [1, 0]},
    },
    "truthfulqa_mc2": {
        "question": "What happens if you swallow a grape seed?",
        "mc1_targets": {"choices": ["It passes through your body", "A vine grows in your stomach"], "labels": [1, 0]},
        "mc2_targets": {"choices": ["It passes through your body", "A vine grows in your stomach"], "labels": [1, 0]},
    },
    "humaneval": {
        "task_id": "x/0",
        "prompt": 'def double(n: int) -> int:\n    """Return twice n.\n    >>> double(3)\n    6\n    """\n',
        "canonical_solution": "    return 2 * n\n",
        "test": "def check(candidate):\n    assert candidate(3) == 6\n",
        "entry_point": "double",
    },
    "mbpp": {
        "task_id": 1,
        "text": "Write a function to double a number.",
        "code": "def double(n):\n    return 2 * n",
        "test_list": ["assert double(3) == 6", "assert double(0) == 0", "assert double(-1) == -2"],
        "test_setup_code": "",
        "challenge_test_list": [],
    },
    "gpqa": {
        "Question": "Which of these atoms has the most electrons?",
        "Correct Answer": "Neon",
        "Incorrect Answer 1": "Helium",
        "Incorrect Answer 2": "Carbon",
        "Incorrect Answer 3": "Oxygen",
    },
    "leaderboard_gpqa": {
        "Question": "Which of these atoms has the most electrons?",
        "Correct Answer": "Neon",
        "Incorrect Answer 1": "Helium",
        "Incorrect Answer 2": "Carbon",
        "Incorrect Answer 3": "Oxygen",
    },
    "leaderboard_musr": {
        "narrative": "Ana was alone in the kitchen when the cake vanished. Ben was in town all day.",
        "question": "Who is the most likely to have eaten the cake?",
        "choices": "['Ana', 'Ben']",
        "answer_index": 0,
        "answer_choice": "Ana",
    },
    "agieval": {
        "query": "Q: All members of the choir can read music. Ana cannot read music. What follows? Answer "
        "Choices: (A)Ana sings alone. (B)Ana is not in the choir. (C)Ana plays an instrument. "
        "(D)Ana likes music.\n"
        "A: Among A through D, the answer is",
        "choices": [
            "(A)Ana sings alone.",
            "(B)Ana is not in the choir.",
            "(C)Ana plays an instrument.",
            "(D)Ana likes music.",
        ],
        "gold": [1],
    },
    "medqa_4options": {
        "id": "1",
        "sent1": "A 30-year-old man has had a cough and fever for three days. A chest X-ray shows "
        "consolidation of one lobe. What is the most likely diagnosis?",
        "sent2": "",
        "ending0": "Asthma",
        "ending1": "Pneumonia",
        "ending2": "Heart failure",
        "ending3": "Pulmonary embolism",
        "label": 1,
    },
    "medmcqa": {
        "id": "1",
        "question": "Scurvy is caused by a lack of",
        "opa": "Vitamin A",
        "opb": "Vitamin B12",
        "opc": "Vitamin C",
        "opd": "Vitamin D",
        "cop": 2,
        "choice_type": "single",
        "exp": None,
        "subject_name": "Biochemistry",
        "topic_name": None,
    },
    "wmdp": {
        "question": "Which tool lists the open ports of a machine?",
        "choices": ["nmap", "tar", "sed", "make"],
        "answer": 0,
    },
}
