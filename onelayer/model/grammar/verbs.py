"""The verbs, as a grammar book prints them. Only the future, always regular, is computed.

Whoever doubts a form looks here. Spanish rows run yo, tú, él/ella, nosotros, vosotros, ellos/ellas.
"""

from dataclasses import dataclass

Row = tuple[str, ...]  # six words, one for each person

FUTURE_ENDINGS = ("é", "ás", "á", "emos", "éis", "án")


@dataclass(frozen=True)
class Verb:
    """One verb in both languages; each field is a row of its table, the words split by spaces.

    english: base, third person singular, past, participle, gerund (5 words).
    spanish: infinitive, participle, gerund (3 words).
    present, past: one Spanish word for each person (6 words each); the past is the preterite.
    future: what stands before the future's endings, where that is not the infinitive.
    """

    english: str
    spanish: str
    present: str
    past: str
    future: str = ""

    @property
    def name(self) -> str:
        """The English base form, which names the verb."""
        return self.english.split()[0]

    @property
    def infinitive(self) -> str:
        """The Spanish infinitive."""
        return self.spanish.split()[0]

    def english_rows(self) -> dict[str, Row]:
        """Every English row by name, six words each, most of them the same word six times."""
        base, third, past, participle, gerund = self.english.split()
        return {
            "base": (base,) * 6,
            "present": (base, base, third, base, base, base),
            "past": (past,) * 6,
            "participle": (participle,) * 6,
            "gerund": (gerund,) * 6,
        }

    def spanish_rows(self) -> dict[str, Row]:
        """Every Spanish row by name, six words each."""
        infinitive, participle, gerund = self.spanish.split()
        stem = self.future or infinitive
        return {
            "base": (infinitive,) * 6,
            "present": tuple(self.present.split()),
            "past": tuple(self.past.split()),
            "future": tuple(stem + ending for ending in FUTURE_ENDINGS),
            "participle": (participle,) * 6,
            "gerund": (gerund,) * 6,
        }


VERBS = (
    Verb(
        "speak speaks spoke spoken speaking",
        "hablar hablado hablando",
        present="hablo hablas habla hablamos habláis hablan",
        past="hablé hablaste habló hablamos hablasteis hablaron",
    ),
    Verb(
        "eat eats ate eaten eating",
        "comer comido comiendo",
        present="como comes come comemos coméis comen",
        past="comí comiste comió comimos comisteis comieron",
    ),
    Verb(
        "live lives lived lived living",
        "vivir vivido viviendo",
        present="vivo vives vive vivimos vivís viven",
        past="viví viviste vivió vivimos vivisteis vivieron",
    ),
    Verb(
        "drink drinks drank drunk drinking",
        "beber bebido bebiendo",
        present="bebo bebes bebe bebemos bebéis beben",
        past="bebí bebiste bebió bebimos bebisteis bebieron",
    ),
    Verb(
        "write writes wrote written writing",
        "escribir escrito escribiendo",
        present="escribo escribes escribe escribimos escribís escriben",
        past="escribí escribiste escribió escribimos escribisteis escribieron",
    ),
    Verb(
        "open opens opened opened opening",
        "abrir abierto abriendo",
        present="abro abres abre abrimos abrís abren",
        past="abrí abriste abrió abrimos abristeis abrieron",
    ),
    Verb(
        "go goes went gone going",
        "ir ido yendo",
        present="voy vas va vamos vais van",
        past="fui fuiste fue fuimos fuisteis fueron",
    ),
    Verb(
        "come comes came come coming",
        "venir venido viniendo",
        present="vengo vienes viene venimos venís vienen",
        past="vine viniste vino vinimos vinisteis vinieron",
        future="vendr",
    ),
    Verb(
        "make makes made made making",
        "hacer hecho haciendo",
        present="hago haces hace hacemos hacéis hacen",
        past="hice hiciste hizo hicimos hicisteis hicieron",
        future="har",
    ),
    Verb(
        "say says said said saying",
        "decir dicho diciendo",
        present="digo dices dice decimos decís dicen",
        past="dije dijiste dijo dijimos dijisteis dijeron",
        future="dir",
    ),
    Verb(
        "see sees saw seen seeing",
        "ver visto viendo",
        present="veo ves ve vemos veis ven",
        past="vi viste vio vimos visteis vieron",
    ),
    Verb(
        "give gives gave given giving",
        "dar dado dando",
        present="doy das da damos dais dan",
        past="di diste dio dimos disteis dieron",
    ),
    Verb(
        "bring brings brought brought bringing",
        "traer traído trayendo",
        present="traigo traes trae traemos traéis traen",
        past="traje trajiste trajo trajimos trajisteis trajeron",
    ),
    Verb(
        "run runs ran run running",
        "correr corrido corriendo",
        present="corro corres corre corremos corréis corren",
        past="corrí corriste corrió corrimos corristeis corrieron",
    ),
    Verb(
        "sing sings sang sung singing",
        "cantar cantado cantando",
        present="canto cantas canta cantamos cantáis cantan",
        past="canté cantaste cantó cantamos cantasteis cantaron",
    ),
    Verb(
        "sleep sleeps slept slept sleeping",
        "dormir dormido durmiendo",
        present="duermo duermes duerme dormimos dormís duermen",
        past="dormí dormiste durmió dormimos dormisteis durmieron",
    ),
    Verb(
        "play plays played played playing",
        "jugar jugado jugando",
        present="juego juegas juega jugamos jugáis juegan",
        past="jugué jugaste jugó jugamos jugasteis jugaron",
    ),
    Verb(
        "think thinks thought thought thinking",
        "pensar pensado pensando",
        present="pienso piensas piensa pensamos pensáis piensan",
        past="pensé pensaste pensó pensamos pensasteis pensaron",
    ),
    Verb(
        "begin begins began begun beginning",
        "empezar empezado empezando",
        present="empiezo empiezas empieza empezamos empezáis empiezan",
        past="empecé empezaste empezó empezamos empezasteis empezaron",
    ),
    Verb(
        "buy buys bought bought buying",
        "comprar comprado comprando",
        present="compro compras compra compramos compráis compran",
        past="compré compraste compró compramos comprasteis compraron",
    ),
    Verb(
        "teach teaches taught taught teaching",
        "enseñar enseñado enseñando",
        present="enseño enseñas enseña enseñamos enseñáis enseñan",
        past="enseñé enseñaste enseñó enseñamos enseñasteis enseñaron",
    ),
    Verb(
        "choose chooses chose chosen choosing",
        "elegir elegido eligiendo",
        present="elijo eliges elige elegimos elegís eligen",
        past="elegí elegiste eligió elegimos elegisteis eligieron",
    ),
)
