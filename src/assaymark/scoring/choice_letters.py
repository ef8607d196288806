"""Extract the chosen letter from a generated answer to a question with lettered options, with or without reasoning.

The last statement counts: a keyword and a letter ("the answer is (B)", "Antwort: B", "故选B"), "B is correct", "so B.",
a box, a tag, JSON, or a line that is a letter alone. Without one, an answer that begins with a letter and its text
("B) Lisbon") has that letter, one that judges the options in turn ("A: wrong. B: right.") the only one that it affirms,
and one in which a single letter stands in brackets has this. A rejected letter ("not A"), one of several ("A or B"), a
symbol ("A = πr²"), a name ("plan B", "E. coli"), the article "A" and the pronoun "I" are no statements. What cannot be
read, or is taken back ("B. No, wait"), is no answer: nothing is guessed, and reasoning that was cut off has none.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from string import ascii_letters

from assaymark.errors import MalformedSample
from assaymark.limits.nesting import parse_json


@dataclass(frozen=True, slots=True)
class ChosenLetter:
    """The extracted choice and the rule that found it."""

    index: int  # of the choice
    rule: str  # stated | whole answer | bracketed
    text: str  # the matching passage


# after a letter these words go on with the sentence; others make "A" an article, and "C" a part of a name (C major)
_GO_ON = (
    "about|according|after|again|all|also|although|and|are|as|at|based|because|but|by|can|choice|"
    "considering|correct|did|do|does|due|either|fits|for|from|given|gives|had|has|here|hence|"
    "however|if|in|indeed|instead|is|it|its|looks|matches|may|might|must|not|of|on|only|or|over|"
    "rather|remains|right|says|seems|should|since|so|than|that|the|then|there|therefore|these|this|"
    "those|though|thus|to|too|under|was|we|were|when|where|which|while|will|with|without|would|"
    "yes|you|car|parce|puisque|est|et|ou|da|denn|weil|ist|und|oder|porque|pues|ya|es|y|o|"
    "perché|è|pois|é|want|omdat|bo|ponieważ|jest|çünkü|karena|adalah|vì|là"
)
_FRAMED = r"[(\[<{【]\s*(?P<f>[A-Za-z])\s*[)\]>}】]"
_ENDS = (  # of C, not of C++, B12, A.M., D'accord, C = 2πr, A^2, C(5,2), A → B or A-2, B-1
    r"(?![A-Za-zÀ-ɏ0-9_+#]|['’](?![dt][iıuü]r\b)|[-/]\w|\.(?![A-Z][a-z]{2})[A-Za-z0-9_]|\s*(?:=(?!>)|[≈≡≃≅∝≤≥]|[<>]\s)"
    r"|\^|\(\s*\d|[*·⋅]\w|\s*[×∪∩⊕⊗∘]|\s*(?:→|⇒|->|=>)\s*\(?[A-Z]\b(?!\s+[a-z])|\s*[-–:]\s*\w+[,;]\s*\(?[A-Z]\)?\s*[-–:])"
)
_CAPITAL = rf"(?:{_FRAMED}|(?P<u>[A-Z]){_ENDS})"  # a letter where nothing announces it
_LOOSE = (  # a letter after a keyword
    rf"(?:{_FRAMED}|(?P<u>[A-Z]){_ENDS}(?:(?<=[AI])(?![ \t]+[^\W\d_]|\s+[a-zß-ɏ])"
    rf"|(?<=I)(?=\s+(?:because|since|as|is|and|or|but|not)\b)"
    rf"|(?<=[^I])(?=\s+(?:{_GO_ON})\b)|(?<=[B-HJ-Z])(?!\s+[a-zß-ɏ]))"
    rf"|(?P<l>[a-z]){_ENDS}(?=\s*(?:[).:,;!\]}}\"']|\n|\Z)|\s+(?:because|since|as)\b))(?!\s*\?)"
)
_NOUN = (
    r"(?i:(?:the\s+)?(?:options?|choices?|letters?|opción|opzione|opção|alternativa|lettera|letra|lettre|buchstabe)"
    r"(?:\s+number)?)"
)
_KEY = unicodedata.normalize(
    "NFKC",  # "answer" in the languages that models answer in
    r"(?i:(?<![^\W_])(?:answers?|ans|guess|choice|option|letter|response|solution|selection|pick|verdict|conclusion|correct|final|result|"
    r"(?:correct|right|best|most\s+\w+)\s+one|(?:правильный|верный)\s+вариант|richtig|korrekt|réponse|choix|antwort|lösung|respuesta|opción|opcion|alternativa|risposta|opzione|"
    r"resposta|opção|antwoord|odpowiedź(?:\s+to)?|odpověď(?:\s+je)?|svaret|svar|vastaus(?:\s+on)?|válasz|răspuns(?:ul)?|cevap|yanıt|jawaban(?:nya)?|"
    r"đáp án|câu trả lời|ответ|відповідь|отговор|απάντηση|jibu|jawapan|sagot|odgovor|"
    r"одговор|odpoveď|atsakymas|atbilde|vastus|erantzuna)(?![^\W_])|答案|答え|答(?=\s*:)|回答|正解|正答|解答|"
    r"[选選](?:择|擇|项|項)?|"
    r"정답|답|الجواب|الإجابة|الاجابة|תשובה|پاسخ|جواب|उत्तर|উত্তর|பதில்|సమాధానం|"
    r"જવાબ|คำตอบ|ข้อ)",
)
_MARKS = "✅✔☑✓👉\ufe0f"
_IS = (
    r"(?:[:=👉\-–—→⇒⟹]|➡\ufe0f?|->|=>|['’]s\b|(?i:\b(?:is|was|are|equals|(?:would|should|must|will|can\s+only|has\s+to|"
    r"seems\s+to|appears\s+to)\s+(?:(?:therefore|then|thus|probably|likely|clearly)\s+)?be|to\s+be|remains|est|ist|lautet|wäre|sería|es|è|sarebbe|é|seria|brzmi|jest|är|er|adalah|είναι|là|это|"
    r"este|olan)\b)|应该|應該|应当|应|應|该|為|为|是|は|은|는|هي|هو|היא|הוא|है|คือ|选|選|[择擇]|項|项)"
)
_ADVERB = (
    r"(?:(?i:\b(?:therefore|thus|hence|then|clearly|definitely|indeed|most|likely|probably|certainly|simply|just|"
    r"obviously|in|fact|actually|really|still|again|now|be|by|the|donc|also|daher|so|only|always)\b[\s:,]+)"
    r"|\b(?:la|le|el|die|der|das|a|o|il)\s+)"
)
_CHOOSE = (
    r"(?i:\b(?:choos(?:e|ing)|chose|pick|picked|select|selected|opt\s+for|go(?:ing)?\s+with|go\s+for|lean(?:ing)?(?:\s+towards?)?|settle\s+on|say|guess|"
    r"vote\s+for|leaves?|leaving|conclude|wähle|nehme|choisis|elijo|scelgo|escolho|left\s+with|(?:leaves|leaving)\s+(?:us|me)\s+with|(?:down|"
    r"points?)\s+to)\b)"
)
_SO = (
    r"(?:(?i:\b(?:it\s+is|it['’]s|it\s+was|(?:it|that|this)\s+would\s+be|i\s+(?:think|believe)|es\s+la|è\s+la|é\s+a|"
    r"sure|ok|okay|yes|alright|of\s+course|probably|most\s+likely|that\s+is|that['’]s|this\s+is|(?:must|has\s+to|should|can\s+only)\s+be|so|thus|"
    r"hence|therefore|definitely|clearly|certainly|obviously|surely|only|also|no|"
    r"wait|correction|actually|sorry|rather|i\s+mean|donc|daher)\b|\bi\.e\.)|∴|⇒|=>|→|因此|所以|而是|したがって)"
)
_SPECIES = re.compile(  # common ones whose genus is written as a letter that options may have
    r"\b([A-J])\.\s?(coli|elegans|thaliana|subtilis|difficile|pylori|influenzae|melanogaster|fumigatus|cereus|anthracis|"
    r"pertussis|burgdorferi|albicans|botulinum|tetani|perfringens|trachomatis|jejuni|neoformans|diphtheriae|reinhardtii|"
    r"rerio|discoideum|histolytica|faecalis|faecium|tularensis|baumannii|niger|aegypti|gambiae|mellifera|afarensis|"
    r"tumefaciens|fragilis|taurus|familiaris|lupus|sativa|gallus|sapiens|erectus|habilis|neanderthalensis|lamblia|"
    r"vaginalis|dermatitidis|immitis|capsulatum|gondii|israelii|flavus|carolinensis|amazonensis|catus|domestica)\b"
)
_RIGHT = (
    r"(?:(?:clearly|therefore|thus|indeed|the|my|our|only|most|final|definitely)\s+)*(?:(?:correct|right|true|best|"
    r"accurate|appropriate|answer|choice|option|one)\b|"
    r"(?<=most\s)(?:likely|plausible|probable|suitable|fitting|logical|reasonable)\b)"
)
_IS_RIGHT = (
    rf"(?i:(?:is|must\s+be|remains|has\s+to\s+be)\s+(?:{_RIGHT}"
    r"(?!(?:\s+(?:answer|choice|option|one))?\s+(?:only|if)\b|"
    r"\s+(?:for|in|under|at|of)\b[^.;\n]{0,60}\bonly\b)|better(?=[ \t.!]*(?:\n|\Z)))|"
    rf"(?:(?:would|should)\s+(?:therefore\s+)?be|(?:seems|appears)(?:\s+to\s+be)?)\s+{_RIGHT}"
    r"(?=(?:\s+(?:answer|choice|option|one))*\s*(?:[.!)\n]|\Z|,?\s+(?:because|since|as|here)\b))|remains\b|it\s+is\b|"
    r"est\s+(?:la\s+)?(?:bonne|correcte?|juste)|(?:ist\s+(?:die\s+)?)?(?:richtige?|korrekt)\b|es\s+(?:la\s+)?(?:respuesta\s+)?"
    r"correct[ao]|è\s+(?:la\s+)?(?:risposta\s+)?(?:corrett[ao]|giust[ao])|é\s+(?:a\s+)?(?:resposta\s+)?corret[ao]|"
    r"(?:项|選項|选项)?\s*是?\s*(?:正确|正確|對的|对的)|[项項]\s*符合|が(?:正解|正しい)|[이가]\s*(?:정답|맞))"
)
_NO_NOT = r"(?!(?:not|no|non|nicht|não|не|nie|niet|inte|ikke|ei|bukan|tidak)\b)"
_ONLY_IT = r"(?i:satisfies|fits|matches|meets|works|holds|applies)"
_THE_RIGHT = r"(?i:(?:the|our)\s+(?:only\s+)?(?:right|correct|best)\b)"
_STATED = tuple(
    re.compile(pattern)
    for pattern in (
        # the answer to this question is therefore option (B); Answer:\n\nB
        rf"{_KEY}(?:\s+{_NO_NOT}[^\W\d_'’]+(?:['’]\w+)?){{0,5}}?[\s{_MARKS}]*(?:{_IS}[\s*_#>:,}}\"“'‘«「{_MARKS}]*)+{_ADVERB}{{0,4}}(?:{_NOUN}[\s:]+)?{_LOOSE}",
        rf"{_KEY}\s*{_IS}(?P<between>[^\n.;!?()]{{1,80}}){_FRAMED}",  # the answer is Lisbon (B)
        rf"{_KEY}\s*(?:{_NOUN}\s*)?\n[\s#>]*{_CAPITAL}(?=\s*(?:[).:,]|\n|\Z))",  # Final answer\n\nB. Lisbon
        # Answer B
        (
            rf"(?:{_KEY}|(?i:\bans)\.)】?[\s{_MARKS}]*(?:{_NOUN}\s+)?{_CAPITAL}(?:['’][dt][iıuü]r)?"
            r"(?=\s*[.!,]?\s*(?:\n|\Z|[^\x00-\u024f]))"
        ),
        rf"{_CHOOSE}[\s:]+(?:{_NOUN}\s+)?{_LOOSE}",
        rf"{_SO}[ \t:,!]*(?:{_NOUN}\s+)?(?:{_FRAMED}|(?P<u>[A-Z]){_ENDS}(?=\s*(?:[.!;,)。]|\n|\Z|because\b|since\b)))",
        rf"(?<![\w'’])(?:(?:{_NOUN}\s+)?{_CAPITAL}|{_NOUN}\s+(?P<l>[a-z]))\s*{_IS_RIGHT}",
        rf"(?i:\bmak(?:es|ing))\s+(?:{_NOUN}\s+)?{_CAPITAL}\s+{_THE_RIGHT}",
        rf"(?i:\bonly)\s+{_NOUN}\s+{_CAPITAL}\s+{_ONLY_IT}\b",
        rf"(?i:\bnot)\s+(?:{_NOUN}\s+)?\(?[A-Z]\)?,?\s+(?i:but)\s+(?:{_NOUN}\s+)?{_LOOSE}",
        rf"####\s*{_CAPITAL}",
        (  # Not A. B.
            rf"\A\W*(?:(?i:not)\s+(?:{_NOUN}\s+)?\(?[A-Z]\b\)?(?:,?\s*(?i:or|nor|and)\s+\(?[A-Z]\b\)?)*"
            rf"\s*[.;!,]\s*)+(?<=[.;!]\s)(?:{_NOUN}\s+)?{_CAPITAL}(?=\W*\Z|\s+(?:because|since)\b)"
        ),
        r"\A\s*(?P<u>[A-Z])(?=,?\s+(?:because|since)\b)",
    )
)
_OR = (
    r"(?i:\b(?:or|and|maybe|perhaps|possibly|oder|und|ou|et|o|y|e|plus|as\s+well\s+as)\b"
    r"(?:\s+(?:also|possibly|maybe|perhaps|even)\b)?)"
)
_JUDGED = r"(?i:is|was|looks?|seems?|would|can|cannot|are|were|has|have|fails?)\b"
_SECOND = re.compile(
    rf"\)?(?:\s*(?:[,;/&+]\s*(?:{_OR}\s*)?|\(?{_OR}|还是|還是|或者?|和|、|또는)\s*|[ \t]*(?=[(\[]))"
    rf"(?:{_NOUN}\s+)?{_LOOSE}"
    rf"(?!(?:\s*(?:,|and|or|nor|&)\s*\(?[A-Z]\b\)?)*\s+{_JUDGED})"
    r"|[ \t]+(?P<other>[A-Z])(?=(?:[ \t]+[A-Z])*[ \t.]*(?:\n|\Z))"
)
_ALSO = re.compile(r"also\b")  # in English one more; in German "so", which no letter precedes
_AFTER_A_LETTER = re.compile(r"(?<![^\W_])[A-Z][)\]]?[\s.,;]*(?:\b(?:and|or|but)\s+)?\Z")
_FURTHER = re.compile(rf"\s*(?:[,/&]\s*(?:{_OR}\s*)?|{_OR}\s*)\(?(?:[A-HJ-Z]\b|I\b(?!\s+[a-z]))")
_OUT = re.compile(  # after a letter: it is no answer
    r"\s+(?i:(?:is|was|are|seems|looks)\s+(?:out|wrong|incorrect|excluded|eliminated|false|impossible|not|"
    r"ruled)\b|fails\b|cannot\b|"
    r"can['’]t\b|isn['’]t\b|doesn['’]t\b)|\s*(?:还是|還是)"
)
_AND = re.compile(
    r"[\s,;&+$/]*(?:\\?(?:text|quad|mbox)?\{?\s*(?:and|or|und|oder|et|ou|y|o)\s*\}?)?[\s,;$/]*", re.IGNORECASE
)
_UNSURE = re.compile(
    r"(?i:\b(?:if|whether|unless|suppose|assume|assuming|were|had|not|n't|isn't|why)\s+(?:that\s+)?|\bnot_)\Z"
    # option A is better than option B, everything but B is correct
    r"|(?i:\b(?:than|over|versus|vs\.|unlike|as\s+opposed\s+to|compared\s+(?:to|with)|(?:everything|all|any|anything)\s+"
    r"(?:but|except))\s+(?:the\s+)?)\Z"
    # the wrong answer is, a falsche Antwort
    r"|(?i:(?<![^\W_])(?:wrong|incorrect|false|worst|(?:least|less)(?:\s+\w+)?|rejected|excluded|eliminated|"
    r"second(?:[ -]best)?|unlikely|(?:another|alternative|alternate|earlier|previous|prior|former|initial|original)"
    r"(?:\s+(?:possible|plausible))?|distractor|tempting|trap|falsche\w*|mauvaise|errad[ao]|errat[ao]|sbagliat[ao]|неправильн\w*|неверн\w*)[\s_]+)\Z|[不没沒非未]\Z"
    r"|(?i:\b(?:initially|originally|previously|at\s+first)[\s,]+(?:(?:the|my)\s+)?)\Z"
    r"|(?i:\b(?:no\s+(?:evidence|indication|proof|reason\s+to\s+(?:think|believe))|not\s+the\s+case)\s+that\s+"
    r"(?:the\s+)?)\Z"
    # I do not think that the answer is
    r"|(?i:(?:\bnot|\bnever|n['’]t|\bnobody|\bno\s+one|\bno\s+way)\s+(?:\w+\s+){0,2}(?:think|thinks|believe|"
    r"believes|say|says|agree|"
    r"accept|claim|mean|true|clear|certain|sure|likely|possible|convinced)\s+(?:that\s+)?(?:the\s+)?)\Z"
    r"|(?i:(?:\b(?:(?<!no )(?<!without )(?<!without a )doubt|deny|denies|disagree|false|untrue|unlikely|"
    r"impossible|no\s+way|"
    r"never|cannot|neither|nor|(?:no\s+one|nobody)\s+(?:would|should|could|will|can))|n['’]t)(?:\s+that)?\s+"
    r"(?:the\s+)?)\Z"
    r"|(?i:\bif\s+(?:you|one|they|someone)\s+|\b(?:not|n['’]t|wrong|incorrect)\s+(?:right\s+|correct\s+|wise\s+)?to\s+)\Z"
    # many people think the answer is, a conditional of others
    r"|(?i:\b(?:one|you|users?|they|friend|(?:some|many|most|other)(?:\s+\w+)?|people|students)\s+(?:(?:might|"
    r"may|could|would|will|often|"
    r"also|first|initially|incorrectly|wrongly)\s+)*(?:think|thinks|thought|say|says|said|claims?|claimed|"
    r"believes?|assume|argues?|"
    r"answer|choose|pick|guess)(?:\s+that)?\s+(?:the\s+)?)\Z"
    r"|(?i:\b(?:(?:tempting|tempted|easy|inclined|common)\s+to\b|(?:mistake|error)\s*(?:(?:is\s+)?to\b|:))\s*(?:say|think|conclude)?(?:\s+that)?\s*"
    r"(?:the\s+)?)\Z"
    r"|(?i:\b(?:(?:they|people|students|users?|solvers?|readers?|candidates|beginners|respondents|others|someone|some|"
    r"many|most)(?:\s+(?:would|will|also))?|(?:you|one)\s+(?:might|may|could))"
    r"(?:\s+(?:might|may|could|often|usually|sometimes|commonly|easily|mistakenly|incorrectly|wrongly|tend\s+to))*\s+)\Z"
)
_WORD_BEFORE = re.compile(r"(?P<word>[^\W\d_]+)[ \t]+\Z")
_BEFORE_LETTERS = frozenset(  # "so B is correct"; after another word it is the name of something: plan B, figure B
    """
    so thus hence therefore then that and but because since as while although though however also only indeed
    clearly obviously certainly definitely surely probably likely maybe perhaps is are be here now again overall
    finally ultimately instead actually really simply just think thinks believe believes say says said guess
    conclude concludes know see sees find feel confident sure mean means show shows suggest suggests indicate
    indicates imply implies make makes making leave leaves leaving confirm confirms agree answer answers option
    options choice choices letter letters statement statements sentence item response result number how why where
    when this it reason summary conclusion opinion course not no yes okay ok well alright or dass daher somit ist
    nur antwort aussage deshalb folglich denn weil da damit que donc réponse proposition seule est car puisque la le
    el une respuesta letra opción porque pues entonces che risposta perché quindi solo a o e alternativa resposta
    então logo pois dat dus antwoord omdat variante alternative alternativ assertion claim inciso literal assertiva
    afirmativa affirmation choix lettre opzione lettera affermazione opcion afirmacion optie stelling opcja svar
    pilihan jawaban jawapan opsi buchstabe
    """.split()  # noqa: SIM905
)
_ARROW_BEFORE = re.compile(r"(?:\A|[:→⇒>]|\bis\b)\s*\(?[A-Z][)\]]?\s*\Z")
_OTHER_LABELS = re.compile(r"[).:][^\n]*\n\s*\(?B[).:][^\n]*\n\s*\(?C[).:]")
_OF_OTHERS = re.compile(
    r"(?i)\b(?:one|you|users?|they|(?:some|many|most|other)(?:\s+\w+)?|people|students|tempting\s+to)\s*\Z"
)
_CONDITION = re.compile(
    r"(?i)(?:\A|[.;:!?\n]\s*|\b(?:but|and|then|that|however,?)\s+)(?:if|unless|suppose|assuming|were|had)\s+(?!(?:i|we|you|one|"
    r"forced|pressed)\b)"
    r"(?:(?!\b(?:so|thus|therefore|hence|because|it\s+follows)\b)[^.;:!?\n])*\Z"
)
_GOES_ON = re.compile(r"\s+(?i:is|was|are|cannot|can|can't|seems|looks|would|could|might|may|has|isn't)\b")
_RETRACTED = re.compile(
    r"(?i:\b(?:wait\b|hmm+\b|no,\s+(?:that|it|i)\b|correct\s+myself|scratch\s+that|on\s+second\s+thoughts?|i\s+was\s+wrong|"
    r"let\s+me\s+re-?(?:check|consider|think|evaluate|examine)|oops\b|never\s*mind\b|hold\s+on\b|edit:|"
    r"i\s+(?:retract|misread|disagree)\b|"
    r"actually,?\s+(?:no\b|i\s+(?:do\s+not|don['’]t|am\s+not))))"
    r"|\A[\s.,;)*]*(?i:(?:but|however|though)?[\s,]*(?:that|this|it|which)(?:['’]s|\s+is|\s+was)\s+(?:wrong|"
    r"incorrect|false|a\s+mistake|"
    r"not\s+(?:right|correct|true|so)|n['’]t\s+right)\s*(?:[.,;!\n]|\Z))|\A\s*(?:では|じゃ|で)(?:ない|なく|ありません)|\A[가이]?\s*아니"
)
_NEGATED = re.compile(
    r"(?i:\b(?:not|never|neither|nor|except|cannot|no|nicht|pas|non|não|niet)\b|n['’]t\b|不|ない|아니)"
)
_DOUBT = re.compile(
    _NEGATED.pattern + r"|(?i:\b(?:wrong|incorrect|false|unlikely|eliminated?|rule|ruled|exclude[ds]?|fails?)\b)"
)
_LINE = re.compile(
    rf"[\s>#*_\-]*(?:{_NOUN}\s+)?{_FRAMED}[.:]?\s*|"
    rf"\W*(?:{_NOUN}\s+)?(?P<u>[A-Za-z])(?![+#]|-\s*\Z)번?\W*"  # not C++, A-
)
_YES_MARK, _NO_MARK = "✅✔☑✓", "❌✗✘✖🚫"
_MARK = rf"(?:(?P<yes>[{_YES_MARK}])|(?P<no>[{_NO_MARK}]))"
_UNMARKED = rf"[^\n{_YES_MARK}{_NO_MARK}]"
_LABELLED = r"(?:[(\[](?P<f>[A-Z])[)\]]|(?<![\w'’])(?P<u>[A-Z]))"
_AT_START = rf"^[ \t>#*\-•|]*(?:{_NOUN}\s+)?"
_NEXT_LABELLED = r"(?:[(\[][A-Z][)\]]|[A-Z]\s*[).:\-–—|])"
_SEPARATED = rf"{_LABELLED}(?:(?<=[)\]])|(?=\s*[).:\-–—|]))[\s).:\-–—|=→]*"
_JUDGEMENTS = tuple(  # of an option
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        rf"{_LABELLED}[\s).:\]\-–—|=→]*{_MARK}",  # A ❌
        (  # A: wrong, because; (A) incorrect (B) correct
            rf"{_SEPARATED}(?i:(?P<yes>correct|right|richtig|korrekt|correcte|correct[ao]|corrett[ao]|corret[ao]|верно|"
            r"正确|正確)|(?P<no>incorrect|wrong|not\s+correct|falsch|inkorrekt|incorrecte|incorrect[ao]|sbagliat[ao]|errad[ao]|"
            r"неверно|错误|錯誤|不正确|不正確))\b"
            rf"(?=\s*(?:[.,;:!|()\n]|\Z|(?:because|since|as)\b|[-–—]\s|{_NEXT_LABELLED}))"
        ),
        (  # A: no. B: yes: nothing else is said, since these words are options too
            rf"{_SEPARATED}(?i:(?P<yes_or_true>yes|true|sí|oui|ja|vrai|sì|да|对|對)|"
            r"(?P<no_or_false>no|false|nein|faux|нет|错|錯))\b"
            rf"(?=[\s.,;!|*]*(?:\Z|\n|(?:(?:and|option|choice|Option|Choice)\s+)*{_NEXT_LABELLED}))"
        ),
        rf"{_AT_START}{_LABELLED}[).:|\s]{_UNMARKED}{{0,200}}{_MARK}{_UNMARKED}*$",  # A) Paris ❌
        rf"^[ \t>#*\-•|]*{_MARK}[\ufe0f\s*]*(?:{_NOUN}\s+)?{_LABELLED}(?![\w'’])[^\n]*$",  # ❌ A) Paris
        (  # A) Paris – wrong
            rf"{_AT_START}{_LABELLED}[).:][^\n]{{1,200}}?(?:\s[-–—]|:|→|\()\s*(?i:(?P<yes>correct|right|true|richtig)|"
            r"(?P<no>incorrect|wrong|false|falsch))(?:[.,;!)][^\n]*)?\s*$"
        ),
        # A错误
        rf"{_LABELLED}\s*(?:项|選項|选项)?\s*(?:(?P<yes>正确|正確|对|對)|(?P<no>错误|錯誤|不正确|不正確|错|錯))",
    )
)
_REJECTING = re.compile(  # not: the statement that is false
    r"(?i)\b(?:(?:reject|eliminat|exclud|discard)\w*(?:\s+\w+)?|not\s+(?:chosen|selected)|(?:wrong|incorrect)\s+"
    r"(?:options?|answers?|choices?|ones?)|these\s+are\s+(?:wrong|incorrect|false))[\s*_]*:?[\s*_]*\Z"
)
_ALONE = re.compile(
    rf"[\s\"'{{\[]*(?i:(?:the\s+)?(?:final\s+|correct\s+)?(?:answer|option|choice)\s*(?:is)?[\s:]*)?"
    rf"(?:{_FRAMED}|(?P<u>[A-Za-z]))[\s\"'.}}\]]*"
)
_LABEL = re.compile(
    r"[\s>#*•✅✔☑👉\ufe0f]*[(\[]?(?P<u>[A-Za-z])(?:[)\]][.:,]?|、|[.:](?=\s|\Z|[^\x00-\u024f]|[A-Z][a-z]{2})|\s+[-–—](?=\s)|,(?=\s))(?P<text>.*)",
    re.DOTALL,
)
_THOUGHT = re.compile(
    r"<(?P<tag>think|thinking|thoughts?|reasoning|reason|reflection|seed:think|analysis|scratchpad|rationale|planning|cot|"
    r"chain[_-]of[_-]thought|thought[_-]process|(?:inner|internal)[_-](?:monologue|thoughts?))\b[^<>]*>.*?(?:</(?P=tag)\s*>|(?P<open>\Z))"
    r"|\[THINK\].*?(?:\[/THINK\]|(?P<open2>\Z))|◁think▷.*?(?:◁/think▷|(?P<open3>\Z))"
    r"|<\|begin_of_thought\|>.*?(?:<\|end_of_thought\|>|(?P<open4>\Z))"
    r"|<\|START_THINKING\|>.*?(?:<\|END_THINKING\|>|(?P<open5>\Z))|<unused94>.*?(?:<unused95>|(?P<open6>\Z))"
    r"|<start_working_out>.*?(?:<end_working_out>|(?P<open7>\Z))"
    r"|<\|(?P<mark>think|thinking|reasoning)\|>.*?(?:<\|?/(?P=mark)\|?>|(?P<open8>\Z))",
    re.DOTALL | re.IGNORECASE,
)
_CLOSED = re.compile(
    r"</(?:think|thinking|thoughts?|reasoning|seed:think)>|\[/THINK\]|◁/think▷|<\|END_THINKING\|>|<unused95>|<end_working_out>",
    re.IGNORECASE,
)
_FINAL = re.compile(r"<\|channel\|>\s*final\s*(?:<\|constrain\|>\w+)?<\|message\|>")
_FENCE = re.compile(r"\s*```\w*\s*\n(?P<text>.*?)\n?\s*```\s*", re.DOTALL)
_NOT_CHOSEN = "incorrect|wrong|reject|eliminat|exclu|discard|alternativ|second|unlikely|distract|not_"
_TAG = re.compile(
    rf"[<\[](?![\w-]*(?:{_NOT_CHOSEN}))(?P<tag>[\w-]*(?:answer|choice|option|letter|response|result)[\w-]*|ans|"
    r"final|output|solution|conclusion)[>\]](?P<text>.{0,400}?)"
    r"(?:[<\[]/(?P=tag)[>\]]|(?=<)|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_OTHER = (  # names of what was not chosen, and of the options themselves
    rf"(?![\w \-]*(?:{_NOT_CHOSEN})"
    r"|(?:options?|choices?)(?:[ _\-]*(?:[a-j]|\d+)|s)\b)"
)
_NAME = (
    rf"{_OTHER}[\w \-]*(?:answer|choice|option|letter|selection|selected|response|prediction|label|correct|result|答案)"
    r"[\w \-]*"
)
_FIELD = re.compile(
    rf"[\"']{_NAME}[\"']\s*:\s*"
    r"(?P<text>\([a-z]\)|\[[^\]]{0,200}\]|\"[^\"\n]{0,400}\"|'[^'\n]{0,400}')",
    re.IGNORECASE,
)
_COMMAND = re.compile(
    r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mathsf|texttt|bf|rm|mbox|operatorname)\b\s*"
)
_FURTHER_QUESTION = re.compile(r"\n[ \t>#*]*(?:question|q)\s*\d*\s*[:.]", re.IGNORECASE)
_ONE = r"\s*\(?\s*([A-Za-z])\s*\)?\s*\.?\s*"
_MARKED = re.compile(
    rf"\*\*\*{_ONE}\*\*\*|\*\*{_ONE}\*\*|(?<!\w)__{_ONE}__(?!\w)|\*{_ONE}\*|(?<!\w)_{_ONE}_(?!\w)|`{{1,3}}{_ONE}`{{1,3}}|"
    rf"\$\$?{_ONE}\$\$?|"
    rf"\\\({_ONE}\\\)|\\\[{_ONE}\\\]|\"{_ONE}\"|[“”„]{_ONE}[“”]|(?<!\w)'{_ONE}'(?!\w)|‘{_ONE}’|「{_ONE}」|«{_ONE}»"
)


def extract_choice_letter(answer: str, n_choices: int) -> ChosenLetter | None:
    """Return the choice that an answer names; None where it names none of this question's choices, or several.

    Raises: MalformedSample for a number of choices outside 2 to 26.
    """
    if not 2 <= n_choices <= 26:
        raise MalformedSample(f"{n_choices} choices; expected 2 to 26 for letters")
    text = _without_reasoning(answer)
    found = None if text is None else (_found(before) if (before := _before_another(text)) else None) or _found(text)
    if found is None or (index := ord(found[0].upper()) - ord("A")) >= n_choices:
        return None
    return ChosenLetter(index, found[1], found[2].strip())


def _before_another(text: str) -> str:
    """Return what stands before a further question, which base models write after their answer; "" without one."""
    further = _FURTHER_QUESTION.search(text)
    return text[: further.start()] if further else ""


def _without_reasoning(answer: str) -> str | None:
    """Return the text after the reasoning, without long blanks; None where the reasoning was cut off."""
    if finals := list(_FINAL.finditer(answer)):
        text: str | None = answer[finals[-1].end() :]
    else:
        text = None if "<|channel|>" in answer else outside_reasoning(answer)
    # the patterns take time cubed in the length of blanks: 1.5 s for 1,000
    return None if text is None else re.sub(r"(?:[^\S\n]*\n){4,}", "\n\n\n", re.sub(r"[^\S\n]{3,}", "  ", text))


def outside_reasoning(answer: str) -> str | None:
    """Return the text outside of tags of reasoning; None where one is not closed."""
    kept, at = [], 0
    for match in _THOUGHT.finditer(answer):
        if match.end() == len(answer) and any(each == "" for each in match.groups()):  # nothing closes it
            return None
        kept.append(answer[at : match.start()])
        at = match.end()
    text = "".join([*kept, answer[at:]])
    closed = list(_CLOSED.finditer(text))  # opened by the prompt
    return text[closed[-1].end() :] if closed else text


def _found(answer: str) -> tuple[str, str, str] | None:
    """Return a letter, the rule and the passage."""
    fenced = _FENCE.fullmatch(answer)
    if (of_json := _of_json(fenced["text"] if fenced else answer)) is not None:
        return of_json
    text, affirmed, are_judged = _judged(_plain(answer))
    statements = sorted(_statements(text), key=lambda each: each[0])
    if statements:
        end, letter, passage = statements[-1]
        return None if letter is None or _RETRACTED.search(text[end:]) else (letter, "stated", passage)
    if are_judged:  # one by one
        return affirmed
    is_object = re.fullmatch(r"\s*\{.*\}\s*", text, re.DOTALL) and re.search(_NOT_CHOSEN, text, re.IGNORECASE)
    return None if is_object else _whole(text) or _bracketed(text)


def _judged(text: str) -> tuple[str, tuple[str, str, str] | None, bool]:
    """Return a text without what it says of each option in turn; the only one that it affirms; whether it says such.

    `yes` and `no`, `true` and `false` may be the options themselves, so of these it takes three.
    """
    judged: dict[str, set[bool]] = {}
    n_short, rest = 0, text
    for pattern in _JUDGEMENTS:
        for match in pattern.finditer(rest):
            groups = match.groupdict()
            is_short = bool(groups.get("yes_or_true") or groups.get("no_or_false"))
            letter = _named(match)
            n_short += is_short and letter not in judged
            judged.setdefault(letter, set()).add(bool(groups.get("yes") or groups.get("yes_or_true")))
        rest = pattern.sub(" ", rest)
    if len(judged) < 2:
        return text, None, False
    if n_short == len(judged) == 2:
        for pattern in _JUDGEMENTS:
            text = pattern.sub(lambda match: f"{_named(match)}) …", text)
        return text, None, True
    affirmed = [letter for letter, verdicts in judged.items() if True in verdicts]
    is_one = len(affirmed) == 1 and judged[affirmed[0]] == {True}
    return rest, (affirmed[0], "stated", text) if is_one else None, True


def _of_json(text: str) -> tuple[str, str, str] | None:
    """Return the letter of an answer that is one JSON object with a field for it."""
    if not text.strip().startswith("{"):
        return None
    try:
        value = parse_json(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, Mapping):
        return None
    fields = [each for key, each in value.items() if re.fullmatch(_NAME, key, re.IGNORECASE)]
    letters = {letter for each in fields if isinstance(each, str) and (letter := _content(_plain(each)))}
    return (letters.pop(), "stated", text) if len(letters) == 1 else None


def _plain(text: str) -> str:
    """Return a text with half-width characters, and a letter that is marked in any way as `(X)`."""
    text = _SPECIES.sub(lambda match: f"{match[1].lower()}{match[2]}", unicodedata.normalize("NFKC", text))
    text = re.sub(r"(?<!~)~~(?!~).*?~~|<del>.*?</del>", " ", text, flags=re.DOTALL)
    text = re.sub(r"</?(?:b|strong|i|em|u|code|p|span|mark|h\d)\b[^<>]*>|<br\s*/?>", "**", text)
    text = re.sub(r"(?<=\d)((?:\\[,;:! ]|[\s~])*)\\(?:text|mathrm|rm)\s*\{\s*([A-Za-z])\s*\}", r"\1\2", text)  # 5 A
    text = _COMMAND.sub("", re.sub(r"<\|[^|<>]*\|>|</?s>|<eos>|<end_of_turn>", " ", text))
    text = re.sub(rf"\{{{_ONE}\}}", lambda match: f"{{({match[1]})}}", text)
    for _ in range(3):
        text = _MARKED.sub(lambda match: f"({next(each for each in match.groups() if each)})", text)
        text = re.sub(r"\(\(\s*([A-Za-z])\s*\)\)", r"(\1)", text)
    return re.sub(r"\*\*|__|`|\$|~~~", "", text)


def _statements(text: str) -> Iterator[tuple[int, str | None, str]]:
    """Yield the end, the letter, and the passage of each statement; no letter where it names several."""
    for pattern in _STATED:
        for match in pattern.finditer(text):
            if _is_rejected(text, match):
                continue
            if (between := match.groupdict().get("between")) and _NEGATED.search(between):
                continue
            letter = _named(match)
            second = _SECOND.match(text, match.end())
            is_further = _ALSO.match(match[0]) and _AFTER_A_LETTER.search(
                text[max(0, match.start() - 20) : match.start()]
            )
            yield match.end(), None if is_further or (second and _named(second) != letter) else letter, match[0]
    contents = [(start, end, box) for start, end, box in _boxes(text)]
    contents += [
        (match.start(), match.end(), match["text"]) for pattern in (_TAG, _FIELD) for match in pattern.finditer(text)
    ]
    last: tuple[int, str | None] = (-1, None)
    for start, end, content in contents:
        if (stated := _content(content)) or _several(content):
            is_near = last[0] >= 0 and start - last[0] < 60
            is_second = is_near and stated != last[1] and _AND.fullmatch(text, last[0], max(start, last[0]))
            last = (end, None if is_second else stated)
            yield end, last[1], text[start:end]
    lines = text.rstrip().splitlines()
    if len(lines) > 1 and (alone := _LINE.fullmatch(lines[-1])):
        before = [line for line in lines[:-1] if line.strip()]
        others = {_named(each).upper() for line in before if (each := _LINE.fullmatch(line))} - {_named(alone).upper()}
        if not (before and _REJECTING.search(before[-1]) and before[-1].rstrip(" *_")[-1:] in (":", *ascii_letters)):
            yield len(text), None if others else _named(alone), lines[-1]
    elif (
        len(lines) > 1
        and (label := _LABEL.fullmatch(lines[-1]))
        and label["u"].isupper()
        and _labels(lines) == {label["u"]}
        and not _GOES_ON.match(label["text"])  # (A) is wrong
    ):
        yield len(text), label["u"], lines[-1]


def _is_rejected(text: str, match: re.Match[str]) -> bool:
    """Return whether a passage that names a letter does not state it: in doubt, conditionally, or of other people."""
    before = text[max(0, match.start() - 200) : match.start()]
    if _UNSURE.search(before) or _OUT.match(text, match.end()):
        return True
    if _ARROW_BEFORE.search(before) and match[0][0] in "→⇒=":  # an order: C → A → B
        return True
    word = _WORD_BEFORE.search(before) if match[0][0] == match.groupdict().get("u") else None
    if word is not None and word["word"].isascii() and word["word"].lower() not in _BEFORE_LETTERS:
        return True
    if re.search(r"(?<![^\W_])[A-Z][)\]]?,?\s+(?:or|and|&)\s+\(?\Z", before):  # A or B is correct
        return True
    if re.match(r"(?i)answers?\s+(?:choices|options)\b", match[0]):
        return True
    if "\n" in match[0] and _named(match) == "A" and _OTHER_LABELS.match(text, match.end()):  # the options, repeated
        return True
    if re.match(r"(?i)answers?\s", match[0]) and _OF_OTHERS.search(before):  # many students answer A
        return True
    if re.search(r"(?i)\bwould\b", match[0]) and re.match(r"(?i)\s+(?:if|unless|were|had)\b", text[match.end() :]):
        return True
    return _CONDITION.search(before) is not None


def _named(match: re.Match[str]) -> str:
    return next(each for name in ("f", "u", "l", "other") if (each := match.groupdict().get(name)))


def _boxes(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the beginning, the end and the content of each LaTeX box."""
    for match in re.finditer(r"\\f?boxed\s*\{", text):
        depth, at = 1, match.end()
        while depth and at < min(len(text), match.end() + 400):
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
        if not depth:
            yield match.start(), at, text[match.end() : at - 1]


def _content(text: str) -> str | None:
    """Return the letter that a text is, with the option's text after it or without."""
    if match := _ALONE.fullmatch(text):
        return _named(match)
    label = _LABEL.fullmatch(text.strip(" \n\"'[]{}"))
    return label["u"] if label and not _several(text) else None


def _several(text: str) -> bool:
    return bool(re.fullmatch(r"\W*[A-Za-z](?:\W+(?:(?:and|or)\W+)?[A-Za-z])+\W*", text))


def _labels(lines: list[str]) -> set[str]:
    """Return the letters with which lines begin."""
    return {label["u"].upper() for line in lines if (label := _LABEL.fullmatch(line))}


_NEXT_LABEL = re.compile(r"[.;,!]\s+\(?[A-Z]\)?\s*[.):–-]\s")  # the label of another option
_SAID_OF_ONE = re.compile(r"\W*(?:no|not|wrong|incorrect|false|untrue|yes|right|correct|true)\b", re.IGNORECASE)


def _whole(text: str) -> tuple[str, str, str] | None:
    """Return the letter of an answer that is a letter, or begins with one that labels its text."""
    lines = text.strip().splitlines()
    if not lines or _several(lines[0]):
        return None
    first = re.sub(r"\A\(?(?:\d|[ivx]+)[.)]\s+", "", lines[0]) if len(lines) == 1 else lines[0]
    match = _LINE.fullmatch(first)
    if match and len(lines) > 1 and not lines[1].strip():  # a letter, and what is said of the options after it
        return _named(match), "whole answer", first
    if len(_labels(lines)) > 1:
        return None
    if match:
        return _named(match), "whole answer", first
    label = _LABEL.fullmatch(first)
    if label is None or _FURTHER.match(first, label.end("u")) or _RETRACTED.search(text):
        return None
    after = first[label.end("u") : label.start("text")]
    if "," in after and (label["u"].islower() or label["u"] == "I"):
        return None
    if label["u"] == "A" and re.search(r"\bB[.):].*?\bC[.):]", label["text"]):  # the options themselves, in one line
        return None
    if _SAID_OF_ONE.match(label["text"]) and _NEXT_LABEL.search(label["text"]):  # A) no. B) yes.
        return None
    if re.fullmatch(r"\s*[A-Za-z]\W*", label["text"]) or _GOES_ON.match(label["text"]):  # A: B; (A) is wrong
        return None
    return label["u"], "whole answer", first


def _bracketed(text: str) -> tuple[str, str, str] | None:
    """Return the only letter in brackets, where the answer rejects nothing."""
    found = {match[1].upper(): match[0] for match in re.finditer(r"(?<![A-Za-z0-9_])[(\[]([A-Za-z])[)\]]", text)}
    if len(found) != 1 or _DOUBT.search(text):
        return None
    ((letter, passage),) = found.items()
    return letter, "bracketed", passage
