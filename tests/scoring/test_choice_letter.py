"""Letters extracted from generated answers."""

from string import ascii_uppercase

import pytest

from assaymark.errors import MalformedSample
from assaymark.scoring.choice_letters import extract_choice_letter

ANSWERS: dict[int, list[tuple[str, str | None]]] = {  # number of choices -> answers with their letter
    4: [
        ("Result: the letter is B", "B"), ("ANSWER: b", "B"), ("The right answer is d.", "D"), ("(c)", "C"),
        ("c) Lisbon", "C"), ("**c**", "C"), ("ANSWER: `C`", "C"), ("ANSWER: $C$", "C"), ("ANSWER: \\(C\\)", "C"),
        ("Hence \\[ \\boxed{C} \\]", "C"), ("\\boxed{\\text{(C)}}", "C"), ("\\boxed{\\textbf{C. Lisbon}}", "C"),
        ("__Answer__: __D__", "D"), ("## Final answer\n\n**D. Lisbon**", "D"), ("Answer:\n\nD", "D"),
        ("<answer>D</answer>", "D"), ('{"answer": "D"}', "D"),
        ('```json\n{"choice": "D", "reason": "A is smaller"}\n```', "D"), ("answer=D", "D"),
        ("Option A looks right, but it is not. So the answer: D", "D"),
        ("Answer: A. No, I must correct myself.\nAnswer: D", "D"), ("The answer is not A. It is D.", "D"),
        ("The answer isn't A.", None), ("B or D, I cannot tell", None),
        ("Answer: A traveller would choose Lisbon, so D.", "D"), ("The answer is A dog.", None),
        ("The answer must be (D).", "D"), ("Thus D is correct.", "D"), ("答案：D", "D"), ("答案是D", "D"),
        ("故选D。", "D"),
        ("Réponse : D", "D"), ("Antwort: D", "D"), ("答えは D です", "D"), ("Ｄ", "D"),
        ("<think>A? No, wait.</think>\n\nD", "D"), ("<think>It could be B, but I should check", None),
        ("The answer is (B).", "B"), ("the correct answer is: C", "C"), ("**Answer:** A", "A"),
        ("Answer: **C**. Because...", "C"), ("So the best choice would be option B", "B"),
        ("Therefore $\\boxed{D}$", "D"), ("\\boxed{\\text{A}}", "A"), ("I would choose C, since B is wrong.", "C"),
        ("The answer is A at first sight. But no: the answer is D.", "D"), ("b", "B"), ("C. The mitochondria", "C"),
        ("**B) Paris**", "B"), ("A) is false, and so (B) it must be", "B"),
        ("Options (A) and (C) fail, which leaves (D)", "D"), ("A dog ran away.", None),
        ("The answer is a mystery.", None), ("The answer is Apple.", None), ("The answer is E.", None),
        ("I don't know", None), ("", None), ("Option C", "C"), ("option c", "C"), ("Choice (C)", "C"),
        ("The answer is option C: Lisbon", "C"), ("Answer: Option C", "C"), ("My answer is C.", "C"),
        ("Final Answer: (C)", "C"), ("**Final Answer:** **C**", "C"), ("### Answer: C", "C"), ("# Answer\nC", "C"),
        ("The final answer is $\\boxed{C}$.", "C"), ("The final answer is \\boxed{\\mathrm{C}}", "C"),
        ("\\boxed{c}", "C"), ("$$\\boxed{(C)}$$", "C"), ("\\[\\boxed{\\text{C) Lisbon}}\\]", "C"),
        ("\\boxed{\\text{Option C}}", "C"), ("\\boxed{Answer: C}", "C"), ("\\(\\text{C}\\)", "C"),
        ("$\\textbf{(C)}$ 5", "C"), ("$\\textbf{(C)}\\ 5$", "C"), ("Answer: \\textbf{C}", "C"),
        ("<answer>C</answer>", "C"), ("<answer>(C) Lisbon</answer>", "C"), ("<answer>\nC\n</answer>", "C"),
        ("<answer> c </answer>", "C"), ("<ANSWER>C</ANSWER>", "C"), ("<final_answer>C</final_answer>", "C"),
        ("[ANSWER]C[/ANSWER]", "C"), ("<answer>A or C</answer>", None), ('{"answer": "c"}', "C"),
        ('{"answer": "C. Lisbon"}', "C"), ('{"answer": "(C)"}', "C"),
        ('{"reasoning": "The answer is A? No.", "answer": "C"}', "C"),
        ('{"answer": "C", "explanation": "A is correct only at first sight"}', "C"), ('{"answer": ["C"]}', "C"),
        ('{"answer": ["A", "C"]}', None), ("{'answer': 'C'}", "C"), ('{"answer_letter": "C"}', "C"),
        ('```json\n{"answer": "C"}\n```', "C"), ('Here is my answer:\n```json\n{"answer": "C"}\n```', "C"),
        ("```\nC\n```", "C"), ('```json\n{"choice": "C"}\n```\nHope that helps!', "C"), ("answer: C", "C"),
        ("answer:C", "C"), ("Answer - C", "C"), ("Answer – C", "C"), ("Answer → C", "C"), ("Answer C", "C"),
        ("Answer (C)", "C"), ("Ans: C", "C"), ("Correct answer: C", "C"), ("Correct option: C", "C"),
        ("The correct option is C.", "C"), ("The right choice is c)", "C"), ("The answer to the question is C.", "C"),
        ("The answer is clearly C.", "C"), ("The answer is therefore C.", "C"), ("The answer must be C.", "C"),
        ("The answer should be C", "C"), ("The answer would be C, because A is too small.", "C"),
        ("The answer is Lisbon (C).", "C"), ("The answer is Lisbon, option C.", "C"),
        ("The correct answer is: **C) Lisbon**", "C"), ("The correct answer is:\n\n**C) Lisbon**", "C"),
        ("The answer is: C\n\nExplanation: A is wrong since it is small. B is too large.", "C"),
        ("C\n\nExplanation: A is wrong.", "C"), ("C is the correct answer.", "C"),
        ("C is correct, because A and B are not.", "C"), ("(C) is right.", "C"),
        ("Option C is the correct answer.", "C"), ("Only C is correct.", "C"), ("C is the answer", "C"),
        ("So it's C.", "C"), ("It is C.", "C"), ("It must be C.", "C"), ("Therefore, C.", "C"),
        ("Thus, the answer: C.", "C"), ("I choose C.", "C"), ("I pick (C).", "C"), ("I'd go with C.", "C"),
        ("I would go with option C.", "C"), ("I select c.", "C"), ("I think the answer is C", "C"),
        ("I believe it's B", "B"), ("Let me think. A is wrong. B is wrong. D is wrong.\nC", "C"),
        ("Reasoning...\n\nC.", "C"), ("Reasoning...\n\n**C. Lisbon**", "C"), ("Reasoning...\n(C)", "C"),
        ("A. no\nB. no\nC. yes\nD. no", None), ("A) Paris\nB) Rome\nC) Lisbon\nD) Oslo\n\nAnswer: C", "C"),
        ("A) Paris is in France.\nB) Rome is in Italy.", None), ("A or C", None), ("A and C", None), ("A, C", None),
        ("A/C", None), ("Both A and B are correct.", None), ("The answer is A or C.", None),
        ("The answer is either A or C", None), ("Answer: A, C", None), ("Answer: AC", None), ("Answer: A and C", None),
        ("None of the above", None), ("The answer is not C.", None), ("It's not C.", None), ("It cannot be C.", None),
        ("C is wrong.", None), ("C is not correct.", None), ("The answer is definitely not (C).", None),
        ("Not A, but C.", None), ("The answer is not (A) but (C).", None), ("A is incorrect; the answer is C", "C"),
        ("The answer cannot be A, so it must be C.", "C"), ("Answer: B\nWait, B is wrong. Answer: C", "C"),
        ("I first thought the answer was A, but the answer is C.", "C"),
        ("The answer is A. Hmm, no. It should be C.", "C"), ("A cat is an animal.", None), ("A", "A"), ("a", "A"),
        ("A.", "A"), ("(A)", "A"), ("The answer is A.", "A"), ("The answer is A", "A"), ("The answer is a.", "A"),
        ("Answer: A because it is large", "A"), ("Answer: A Tale of Two Cities", None),
        ("The answer is A traveller.", None), ("In my opinion A majority would choose C.", "C"),
        ("The answer is C++", None), ("The answer is C major", None), ("The answer is B12", None),
        ("The answer is A.M.", None), ("D'accord", None), ("答案：C", "C"), ("答案是：C", "C"),
        ("答案为C", "C"), ("答案選C", "C"),
        ("正确答案是C。", "C"), ("正确答案：C", "C"), ("正确选项是C", "C"), ("选C", "C"), ("选 C", "C"),
        ("选择C", "C"), ("因此，答案是C。", "C"),
        ("故答案为：C。", "C"), ("所以答案是(C)", "C"), ("应该选C", "C"), ("C选项正确", "C"), ("C正确", "C"),
        ("A不正确，所以选C", "C"),
        ("综上所述，本题选C。", "C"), ("答えはC", "C"), ("答え：C", "C"), ("正解はCです。", "C"),
        ("正解は（C）です", "C"), ("Cが正解です", "C"),
        ("정답: C", "C"), ("정답은 C입니다.", "C"), ("답: C", "C"), ("La réponse est C.", "C"),
        ("La bonne réponse est C.", "C"), ("La bonne réponse est la C.", "C"), ("La réponse correcte est (C)", "C"),
        ("Réponse: C", "C"), ("La réponse est A.", "A"), ("Die Antwort ist C.", "C"),
        ("Die richtige Antwort ist C.", "C"), ("Die richtige Antwort lautet C.", "C"), ("Richtige Antwort: C", "C"),
        ("Antwort C", "C"), ("Lösung: C", "C"), ("La respuesta es C.", "C"), ("La respuesta correcta es la C.", "C"),
        ("Respuesta: C", "C"), ("La opción correcta es C", "C"), ("La risposta è C.", "C"),
        ("La risposta corretta è la C.", "C"), ("Risposta: C", "C"), ("A resposta é C.", "C"),
        ("A resposta correta é a C.", "C"), ("Resposta: C", "C"), ("A resposta é", None), ("Het antwoord is C.", "C"),
        ("Antwoord: C", "C"), ("Odpowiedź: C", "C"), ("Prawidłowa odpowiedź to C.", "C"), ("Ответ: C", "C"),
        ("Правильный ответ: C", "C"), ("Правильный ответ — C", "C"), ("Cevap: C", "C"), ("Doğru cevap C", "C"),
        ("Đáp án: C", "C"), ("Đáp án là C", "C"), ("Jawaban: C", "C"), ("Jawabannya adalah C", "C"),
        ("الإجابة: C", "C"), ("الإجابة الصحيحة هي C", "C"), ("उत्तर: C", "C"), ("सही उत्तर C है", "C"),
        ("Svar: C", "C"), ("Vastaus: C", "C"), ("Ｃ", "C"), ("（Ｃ）", "C"), ("Ｃ．", "C"), ("答案：Ｃ", "C"),
        ("答案：Ｃ。", "C"),
        ("Ａｎｓｗｅｒ： Ｃ", "C"), ("Ⓒ", "C"), ("Answer: “C”", "C"), ("Answer: 'C'", "C"), ('Answer: "C"', "C"),
        ("Answer: [C]", "C"), ("Answer: {C}", "C"), ("Answer: <C>", "C"), ("Answer: *C*", "C"), ("Answer: _C_", "C"),
        ('"C"', "C"), ("'c'", "C"), ("`C`", "C"), ("*C*", "C"), ("$C$", "C"), ("[C]", "C"), ("C:", "C"), ("C)", "C"),
        ("C,", "C"), ("C!", "C"), ("C: Lisbon", "C"), ("C - Lisbon", "C"), ("C – Lisbon", "C"),
        ("C, because it is the capital", "C"), ("(C) Lisbon", "C"), ("[C] Lisbon", "C"), ("c. lisbon", "C"),
        ("**C** Lisbon", "C"), ("**C**: Lisbon", "C"), ("**C.** Lisbon", "C"), ("- C", "C"), ("> C", "C"),
        ("* **C**", "C"), ("• C) Lisbon", "C"), ("<b>C</b>", "C"), ("A: C", None), ("<think>A? no.</think>C", "C"),
        ("<think>\nThe answer is A.\n</think>\n\nThe answer is C.", "C"), ("The answer is A, hmm.\n</think>\nC", "C"),
        ("<think>The answer is A.", None), ("<think>The answer is A.</think>", None),
        ("<thinking>A</thinking> C", "C"), ("<think>a</think><answer>C</answer>", "C"),
        ("<think>The answer is B</think>\n<think>hmm", None),
        ("<|channel|>analysis<|message|>Answer: A<|end|><|start|>assistant<|channel|>final<|message|>C", "C"),
        ("<|channel|>analysis<|message|>Answer: A", None), ("[THINK]A[/THINK]C", "C"), ("#### C", "C"),
        ("Step 1: ... Step 2: ...\n#### C", "C"), ("The answer is C<|im_end|>", "C"), ("C<|eot_id|>", "C"),
        ("C</s>", "C"), ("The answer is\n\nC", "C"), ("**Answer**\n\nC", "C"), ("**Answer:**\n(C) Lisbon", "C"),
        ("Answer:\n**C**", "C"), ("Final answer: c", "C"), ("ANSWER: c)", "C"), ("ANSWER - C", "C"),
        ("Answer is C", "C"), ("Answer=C", "C"), ("The answer's C.", "C"), ("answer: c because it is big", "C"),
        ("The letter is c.", "C"), ("~~A~~ C", "C"), ("Correct: C", "C"), ("C ✅", "C"), ("✅ C", "C"),
        ("The correct answer is C (Lisbon), not A (Paris).", "C"), ("The answer is C, not A.", "C"),
        ("The answer is C rather than A.", "C"), ("The answer is C. A is wrong because the answer is not A.", "C"),
        ("The answer is C. Note that option A is not correct.", "C"),
        ("If A is correct, then B is too. So the answer is D.", "D"), ("Would the answer be A? The answer is C.", "C"),
        ("Is the answer A?", None), ("Which answer is A?", None), ("Vitamin C is found in oranges", None),
        ("Plan B", None), ("Hepatitis B is a virus", None), ("The answer is vitamin C.", None),
        ("Final Answer: The final answer is $C$. I hope it is correct.", "C"), ("Answer: 3", None), ("3", None),
        ("Lisbon", None), ("Answer: Lisbon", None), ("The best answer is C", "C"), ("Best answer: C.", "C"),
        ("the answer is C.\n\nQuestion: What is B?", "C"), ("A. No wait, B.", "B"), ("Answer: A. No, D.", "D"),
        ("Answer: A? No: C.", "C"), ("Answer: A. No, I must correct myself.", None),
        ("A. Hmm, wait, that is wrong", None), ("The answer is A. Actually, D.", "D"),
        ("The answer is **not** A.", None), ("Answer: none", None), ("A. B. C. D.", None), ("A B C D", None),
        ("Answer: A\nAnswer: B\nAnswer: C", "C"), ("**Answer: (C) Lisbon**", "C"),
        ("Answer: **(C)** Lisbon", "C"), ("**Correct Answer:** C", "C"), ("**C**\n\nBecause A is wrong.", "C"),
        ("C. Lisbon\n\nExplanation: Option A (Paris) is in France. Option B is in Italy.", "C"),
        ("C) Lisbon is correct. A) Paris is wrong.", "C"),
        ("Let's think. Option A: no. Option B: no. Option C: yes. Option D: no.\nTherefore the answer is C.", "C"),
        ("The correct answer is C, since A is a city.", "C"), ("The best answer is: C. Lisbon", "C"),
        ("I'd answer C.", "C"), ("My final answer is (C)", "C"),
        ("So, the final answer is:\n\n$$\\boxed{C}$$", "C"), ("\\boxed{\\textrm{C}}", "C"),
        ("\\boxed{\\mathbf{C}}", "C"), ("\\fbox{C}", "C"), ("$\\boxed{\\text{C}}$.", "C"),
        ("\\boxed{A, C}", None), ("\\boxed{42}", None), ("\\boxed{C) 42}", "C"),
        ("The answer is \\(\\boxed{C}\\)", "C"), ("Answer: \\text{C}", "C"), ("\\textbf{Answer: C}", "C"),
        ("Answer: $\\mathrm{C}$", "C"), ("\\( \\text{Answer} = \\text{C} \\)", "C"),
        ('{"answer":"C","confidence":0.9}', "C"), ('{"Answer": "C"}', "C"),
        ('{"final_answer": "C) Lisbon"}', "C"), ('{"answer": {"letter": "C"}}', "C"),
        ('{"answer": null}', None), ('{"answer": 2}', None), ('[{"answer": "C"}]', "C"),
        ('{"response": {"answer": "C"}}', "C"), ("{answer: C}", "C"), ("answer: 'C'", "C"),
        ('{"answer": "C"', "C"), ('"answer": "C"', "C"), ('{"answer": "A or B"}', None),
        ('{"selected_option": "c"}', "C"), ("<answer>C", "C"), ("<answer>Option C</answer>", "C"),
        ("<answer>**C**</answer>", "C"), ("<answer>The answer is C.</answer>", "C"),
        ("<choice>C</choice>", "C"), ("<result>C</result>", "C"), ("<option>C</option>", "C"),
        ("<letter>C</letter>", "C"), ("<ans>C</ans>", "C"), ("<answer>A</answer> wait <answer>C</answer>", "C"),
        ("<final>C</final>", "C"), ("<output>C</output>", "C"), ("```\nAnswer: C\n```", "C"),
        ("```text\nC\n```", "C"), ("~~~\nC\n~~~", "C"), ("`Answer: C`", "C"), ("> **Answer:** C", "C"),
        ("| Answer | C |", None), ("- **Answer**: C", "C"), ("1. Answer: C", "C"), ("ANSWER : C", "C"),
        ("Answer is (c).", "C"), ("the answer is c", "C"), ("answer: c, because of x", "C"), ("a) Paris", "A"),
        ("a. Paris", "A"), ("(a)", "A"), ("The answer is (a)", "A"), ("The answer is a) Paris", "A"),
        ("a dog", None), ("La respuesta correcta es (C).", "C"), ("Respuesta correcta: C", "C"),
        ("Opción C", "C"), ("La alternativa correcta es C", "C"), ("Resposta final: C", "C"),
        ("Alternativa correta: C", "C"), ("Bonne réponse : C", "C"), ("C'est la réponse C.", "C"),
        ("La réponse est donc C.", "C"), ("La réponse est : C) Lisbonne", "C"), ("Die Lösung ist C.", "C"),
        ("Antwort: C)", "C"), ("Somit ist C richtig.", "C"), ("C ist richtig.", "C"), ("Richtig ist C.", "C"),
        ("La risposta giusta è C", "C"), ("Het juiste antwoord is C.", "C"), ("正确答案为 C", "C"),
        ("答案是 C 选项", "C"), ("答：C", "C"), ("答案【C】", "C"), ("【答案】C", "C"), ("故答案选C", "C"),
        ("因此选C。", "C"), ("应选C", "C"), ("本题答案：(C)", "C"), ("最终答案：C", "C"),
        ("选项C是正确的", "C"), ("正解：C", "C"), ("答えは（C）です。", "C"), ("解答はCである", "C"),
        ("したがって、答えはCです。", "C"), ("정답은 (C)입니다", "C"), ("정답 : C", "C"), ("답은 C이다", "C"),
        ("Правильный ответ: C.", "C"), ("Ответ: (C)", "C"), ("Верный ответ C", "C"), ("الجواب: C", "C"),
        ("الإجابة هي (C)", "C"), ("उत्तर है C", "C"), ("Đáp án đúng là C", "C"), ("Doğru cevap: C", "C"),
        ("Cevap C'dir.", None), ("Jawaban yang benar adalah C", "C"), ("Rätt svar är C", "C"),
        ("Det rigtige svar er C", "C"), ("Oikea vastaus on C", "C"), ("Správná odpověď je C", "C"),
        ("A helyes válasz: C", "C"), ("Răspunsul corect este C", "C"), ("Η απάντηση είναι C", "C"),
        ("תשובה: C", "C"), ("پاسخ: C", "C"), ("คำตอบคือ C", "C"), ("คำตอบ: C", "C"), ("Ａ", "A"),
        ("答案：Ｂ", "B"), ("Ａ．猫", "A"), ("（Ａ）", "A"), ("Ａｎｓｗｅｒ：Ｂ", "B"), ("ｂ", "B"),
        ("I would say A or B.", None), ("Either A or B.", None), ("It's between A and B.", None),
        ("Could be A, could be C.", None), ("A? B? I don't know.", None), ("Maybe A.", None),
        ("I'm not sure, but C.", None), ("All of the above", None), ("A, B, and C", None),
        ("All except C", None), ("The answer is neither A nor B.", None),
        ("I can't answer that. A good question!", None), ("Neither (A) nor (B).", None),
        ("(A) is wrong.", None), ("Not (A).", None), ("A majority of experts choose B.", "B"),
        ("A: The answer is B", "B"), ("The answer to A is B.", "B"),
        ("Comparing A and B, B is better, so B.", "B"), ("B is better than A.", None),
        ("B is the best answer, not A.", "B"), ("B is not the answer; C is.", None),
        ("Option B is incorrect. Option C is correct.", "C"), ("The answer isn't B, it's C.", "C"),
        ("Not B. C.", None), ("The answer is not B but C.", None),
        ("Final answer: C\n\nLet me know if you have questions!", "C"),
        ("Answer: C\n\n---\n\nNote: A is common.", "C"), ("The answer is C.</s><s>", "C"),
        ("The answer is C.<|endoftext|>", "C"), ("Answer: C [end of text]", "C"), ("C\nC\nC", "C"),
        ("C C C", None), ("C\n\n\n", "C"), ("Answer: C. Question: Which? Answer: A", "A"),
        ("<thinking>A</thinking>\n<answer>C</answer>", "C"), ("<think></think>C", "C"),
        ("<think>\n\n</think>\n\nThe answer is C", "C"), ("<reasoning>so A</reasoning><answer>C</answer>", "C"),
        ("<think>Answer: A</think> I am not sure.", None), ("<thought>A", None),
        ("<|begin_of_thought|>A<|end_of_thought|><|begin_of_solution|>C<|end_of_solution|>", "C"),
        ("Thinking: maybe A\nAnswer: C", "C"), ("<scratchpad>The answer is A</scratchpad>C", "C"),
    ],
    9: [
        ("I", "I"), ("I am not sure", None), ("I think the answer is I.", "I"),
        ("Answer: I believe it is large", None), ("The answer is I", "I"), ("Answer: I", "I"), ("i", "I"),
        ("I, for one, cannot tell", None), ("As an AI, I can't answer.", None),
    ],
    10: [
        ("We get \\boxed{\\sqrt{2} \\ll D}, so **Answer: D**", "D"), ("I think so", None), ("I", "I"),
        ("Final Answer: The final answer is C. I hope it is correct.", "C"), ("Answer: C. I hope this helps!", "C"),
        ("The answer is C. I am sure.", "C"), ("No, I.", "I"),
        ("<answer>I cannot</answer>", None), ("i think b", None), ("the answer is i", "I"),
    ],
    26: [
        ("The answer is U.S.", None),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "n_choices", "letter"), [(answer, n, letter) for n, each in ANSWERS.items() for answer, letter in each]
)
def test_the_last_statement_is_read_and_nothing_is_guessed(answer: str, n_choices: int, letter: str | None) -> None:
    """Statements in any markup and in several languages count; articles, pronouns, negations and doubts do not."""
    chosen = extract_choice_letter(answer, n_choices)
    assert (None if chosen is None else ascii_uppercase[chosen.index]) == letter


@pytest.mark.parametrize(
    "text", ["`" * 30_000, "answer the " * 6_000, "\\boxed{" * 4_000, "A, " * 8_000, "<answer>" * 4_000]
)
def test_long_answers_without_a_letter_are_read(text: str) -> None:
    """An answer that repeats one mark for thousands of characters is no answer, and is read at once."""
    assert extract_choice_letter(text, 4) is None


def test_the_passage_and_the_rule_are_returned() -> None:
    """So `show --samples` can show why a letter was chosen."""
    chosen = extract_choice_letter("Hm. The answer is (B).", 4)
    assert chosen is not None
    assert (chosen.rule, chosen.index) == ("stated", 1)
    assert "answer is (B" in chosen.text


def test_the_number_of_choices_limits_the_letters() -> None:
    """With ten choices J is a letter, with four it is none; letters cannot name thirty."""
    chosen = extract_choice_letter("The answer is (J)", 10)
    assert chosen is not None
    assert chosen.index == 9
    assert extract_choice_letter("The answer is (J)", 4) is None
    with pytest.raises(MalformedSample, match="2 to 26"):
        extract_choice_letter("A", 30)
